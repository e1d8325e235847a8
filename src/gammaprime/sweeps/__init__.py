"""Many runs: specs, plans, and the processes or clusters that train them."""
