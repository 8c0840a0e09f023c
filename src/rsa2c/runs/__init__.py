"""Run folders, training in them, sweeps over them."""
