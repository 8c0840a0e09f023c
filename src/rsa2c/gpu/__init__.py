"""Training on a GPU: environments, rollouts and the phases of an epoch in JAX."""
