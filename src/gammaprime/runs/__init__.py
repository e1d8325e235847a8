"""One run on disk: its configuration, its folder, its checkpoints and its training."""
