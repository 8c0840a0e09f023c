#!/bin/bash
# One training over the nodes of a SLURM job:  sbatch slurm.sh Ant-v5 --n-envs 126
# A job that was preempted goes on from its last checkpoint when SLURM starts it again.
#SBATCH --job-name=rsa2c
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --no-kill
#SBATCH --requeue
#SBATCH --open-mode=append
set -euo pipefail
export OMP_NUM_THREADS=1

# This script runs on the first node and has the driver, which keeps a core for itself.
cores=$SLURM_CPUS_PER_TASK
others=$((SLURM_JOB_NUM_NODES - 1))
workers=$((SLURM_JOB_NUM_NODES * cores - 1))
first=$SLURMD_NODENAME
ip=$(hostname --ip-address | tr ' ' '\n' | grep -m 1 -v :)
# Two jobs on one node must not meet: ports by their numbers, and workers' wherever there is room.
port=$((20000 + SLURM_JOB_ID % 5000))
client_port=$((port + 5000))
node=(--min-worker-port=0 --max-worker-port=0 --block)

# The number of cores is given again: since version 22.05 srun does not take it from sbatch.
step=(srun --overlap --no-kill --kill-on-bad-exit=0 --ntasks-per-node=1 --cpus-per-task="$cores")
steps=()
trap 'kill "${steps[@]}" 2>/dev/null || true' EXIT
"${step[@]}" --nodes=1 --ntasks=1 --nodelist="$first" \
    ray start --head --node-ip-address="$ip" --port="$port" --ray-client-server-port="$client_port" \
    --include-dashboard=false --num-cpus=$((cores - 1)) "${node[@]}" &
steps+=($!)

SECONDS=0
until (exec 3<>"/dev/tcp/$ip/$port") 2>/dev/null; do
    if ! kill -0 "${steps[0]}" 2>/dev/null || [ "$SECONDS" -ge 120 ]; then
        echo "slurm.sh: Ray does not answer at $ip:$port on $first; what it said is above." >&2
        exit 1
    fi
    sleep 1
done
if [ "$others" -gt 0 ]; then
    "${step[@]}" --nodes="$others" --ntasks="$others" --exclude="$first" \
        ray start --address="$ip:$port" --num-cpus="$cores" "${node[@]}" &
    steps+=($!)
fi

# The training itself waits until its workers have started, five minutes at most.
out=runs/$SLURM_JOB_ID
begun=("$out"/*/config.yaml)
spread=(--workers "$workers" --address "$ip:$port" --quiet)
if [ -f "${begun[0]}" ]; then
    rsa2c resume "$(dirname "${begun[0]}")" "${spread[@]}"
else
    rsa2c train "$@" --out "$out" "${spread[@]}"
fi
