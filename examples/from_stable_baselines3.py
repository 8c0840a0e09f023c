"""For users of Stable-Baselines3: the same callbacks and evaluation, and then what a network cannot tell you.

Needs `pip install 'rsa2c[baselines]'`. Takes some seconds.
"""

import gymnasium
from stable_baselines3.common.callbacks import EvalCallback, StopTrainingOnRewardThreshold
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

import rsa2c


def main() -> None:
    agent = rsa2c.RSA2C(gymnasium.make("Pendulum-v1"), seed=0)
    solved = StopTrainingOnRewardThreshold(-160, verbose=1)
    test = Monitor(gymnasium.make("Pendulum-v1"))
    callback = EvalCallback(test, solved, n_eval_episodes=50, eval_freq=2000, verbose=1)
    agent.learn(total_timesteps=200_000, callback=callback)

    mean, deviation = evaluate_policy(agent, test, n_eval_episodes=50)
    print(f"after {agent.num_timesteps:,} steps: {mean:.1f} +- {deviation:.1f}")

    observation, _ = gymnasium.make("Pendulum-v1").reset(seed=0)
    action, _ = agent.predict(observation)
    explanation = agent.explain(observation[None], of="action")
    print(f"at {observation} the torque is {action[0]:.2f} N m. Before it is limited to its range:")
    average, contributions = explanation.base_values[0, 0], explanation.values[0, :, 0]
    print(f"  {'on average':16} {average:+.2f}")
    for name, value in zip(explanation.feature_names, contributions, strict=True):
        print(f"  {name:16} {value:+.2f}")
    print(f"  {'here':16} {average + contributions.sum():+.2f}")


if __name__ == "__main__":
    main()
