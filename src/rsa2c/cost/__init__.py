"""Operations, memory and time of training."""
