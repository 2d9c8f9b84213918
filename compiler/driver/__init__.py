"""The driver: a model and options -> an artifact, stage by stage."""
