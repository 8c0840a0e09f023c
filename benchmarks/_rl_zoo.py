"""Returns that RL-Zoo published for its trained agents."""

from __future__ import annotations

SOURCE = (
    "RL-Zoo's figures are from https://github.com/DLR-RM/rl-baselines3-zoo, benchmark.md, last changed on 2023-04-11 "
    "(commit 61a0d13): one trained agent each, about 150,000 evaluation steps. MuJoCo's environments are version 3 "
    "there and LunarLanderContinuous is version 2; rewards and observations of version 5 partly differ. Training steps "
    "are in brackets. RL-Zoo has no Reacher, InvertedPendulum and InvertedDoublePendulum of MuJoCo, and neither PPO "
    "nor TRPO for Humanoid."
)
ALGORITHMS = ("PPO", "SAC", "TRPO", "TQC", "TD3")
Figure = tuple[float, float, str]
"""Mean, standard deviation over episodes, training steps."""

PUBLISHED: dict[str, tuple[str, dict[str, Figure]]] = {
    "Hopper-v5": (
        "Hopper-v3",
        {
            "PPO": (2410.435, 10.026, "1M"),
            "SAC": (2325.547, 1129.676, "1M"),
            "TRPO": (3618.386, 356.768, "1M"),
            "TQC": (3754.199, 8.276, "1M"),
            "TD3": (3606.390, 4.027, "1M"),
        },
    ),
    "Walker2d-v5": (
        "Walker2d-v3",
        {
            "PPO": (3478.798, 821.708, "1M"),
            "SAC": (3863.203, 254.347, "1M"),
            "TRPO": (4933.148, 1452.538, "1M"),
            "TQC": (4380.720, 500.489, "1M"),
            "TD3": (4717.823, 46.303, "1M"),
        },
    ),
    "HalfCheetah-v5": (
        "HalfCheetah-v3",
        {
            "PPO": (5819.099, 663.530, "1M"),
            "SAC": (9535.451, 100.470, "1M"),
            "TRPO": (1785.476, 68.672, "1M"),
            "TQC": (12089.939, 127.440, "1M"),
            "TD3": (9655.666, 969.916, "1M"),
        },
    ),
    "Ant-v5": (
        "Ant-v3",
        {
            "PPO": (1327.158, 451.577, "1M"),
            "SAC": (4615.791, 1354.111, "1M"),
            "TRPO": (4982.301, 663.761, "1M"),
            "TQC": (3339.362, 1969.906, "1M"),
            "TD3": (5813.274, 589.773, "1M"),
        },
    ),
    "Swimmer-v5": (
        "Swimmer-v3",
        {
            "PPO": (281.561, 9.671, "1M"),
            "SAC": (345.568, 3.084, "1M"),
            "TRPO": (365.663, 2.087, "1M"),
            "TQC": (339.423, 1.486, "1M"),
            "TD3": (359.127, 1.244, "1M"),
        },
    ),
    "Humanoid-v5": (
        "Humanoid-v3",
        {
            "SAC": (6232.287, 279.885, "2M"),
            "TQC": (7239.320, 1647.498, "2M"),
            "TD3": (5566.687, 14.544, "2M"),
        },
    ),
    "BipedalWalker-v3": (
        "BipedalWalker-v3",
        {
            "PPO": (287.939, 2.448, "5M"),
            "SAC": (297.668, 33.060, "500k"),
            "TRPO": (182.339, 145.570, "1M"),
            "TQC": (329.808, 45.083, "500k"),
            "TD3": (305.990, 56.886, "1M"),
        },
    ),
    "LunarLanderContinuous-v3": (
        "LunarLanderContinuous-v2",
        {
            "PPO": (270.863, 32.072, "1M"),
            "SAC": (260.390, 65.467, "500k"),
            "TRPO": (262.387, 21.428, "200k"),
            "TQC": (277.956, 25.466, "500k"),
            "TD3": (207.451, 67.562, "300k"),
        },
    ),
    "MountainCarContinuous-v0": (
        "MountainCarContinuous-v0",
        {
            "PPO": (88.343, 2.572, "20k"),
            "SAC": (94.679, 1.134, "50k"),
            "TRPO": (92.489, 0.355, "50k"),
            "TQC": (63.641, 45.259, "50k"),
            "TD3": (93.483, 0.075, "300k"),
        },
    ),
    "Pendulum-v1": (
        "Pendulum-v1",
        {
            "PPO": (-172.225, 104.159, "100k"),
            "SAC": (-156.995, 88.714, "20k"),
            "TRPO": (-174.631, 127.577, "100k"),
            "TQC": (-151.340, 87.893, "20k"),
            "TD3": (-151.855, 90.227, "20k"),
        },
    ),
}
"""Our environment -> RL-Zoo's, and its figures by algorithm."""
