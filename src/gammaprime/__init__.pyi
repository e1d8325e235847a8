from gammaprime import estimators as estimators
from gammaprime import integrations as integrations
from gammaprime import tabular as tabular
from gammaprime.agents import DDPG as DDPG
from gammaprime.agents import GAE as GAE
from gammaprime.agents import PG as PG
from gammaprime.agents import PPO as PPO
from gammaprime.agents import SAC as SAC
from gammaprime.agents import TD3 as TD3
from gammaprime.agents import TRPO as TRPO
from gammaprime.agents import DensityRatio as DensityRatio
from gammaprime.agents import TaylorCritic as TaylorCritic
from gammaprime.agents import TaylorGradient as TaylorGradient
from gammaprime.agents import TaylorQ as TaylorQ
from gammaprime.agents import TaylorWeight as TaylorWeight
from gammaprime.agents import TDDelta as TDDelta
from gammaprime.agents import Uniform as Uniform
from gammaprime.envs import make as make
from gammaprime.runs.config import Evaluation as Evaluation
from gammaprime.runs.run import load_policy as load_policy
from gammaprime.runs.run import read_metrics as read_metrics
from gammaprime.runs.training import Callback as Callback
from gammaprime.runs.training import evaluate as evaluate
from gammaprime.runs.training import resume as resume
from gammaprime.runs.training import train as train

__version__: str
