#!/usr/bin/env bash
# whet under srun: a cluster of one node that this test starts and ends. Arguments: openmpi|mpich MPIRUN.
# shellcheck disable=SC2317 # the functions are called through check
set -u
# shellcheck source=tests/support/check.sh
. "$WHET_SOURCE_DIR/tests/support/check.sh"

mpi=$1
PATH=$PATH:/usr/sbin:/sbin
for program in munged slurmctld slurmd srun sbatch; do
    command -v "$program" >/dev/null && continue
    skip "all of it" "needs slurm-wlm and munge"
    finish
    exit
done
if [ "$(id -u)" -ne 0 ]; then
    skip "all of it" "needs root, for slurmd"
    finish
    exit
fi

# ---- the cluster: in a folder with a short name, since sockets are in it ----

cluster=$(mktemp -d /tmp/whet-slurm-XXXXXX)
end_cluster() {
    local name pid
    for name in slurmd slurmctld munged; do
        pid=$(cat "$cluster/$name.pid" 2>/dev/null) || continue
        kill "$pid" 2>/dev/null
        for _ in $(seq 100); do
            kill -0 "$pid" 2>/dev/null || break
            sleep 0.1
        done
    done
    rm -rf "$cluster"
}
trap 'end_cluster; rm -rf "$SCRATCH"' EXIT

mkdir "$cluster/state" "$cluster/spool"
chmod 755 "$cluster"
(umask 077 && head -c 1024 /dev/urandom >"$cluster/munge.key")
port=$((20000 + $$ % 20000))
node=$(hostname -s)
cat >"$cluster/slurm.conf" <<END
ClusterName=whet
SlurmctldHost=$node(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$cluster/munge.sock
CredType=cred/munge
StateSaveLocation=$cluster/state
SlurmdSpoolDir=$cluster/spool
SlurmctldPidFile=$cluster/slurmctld.pid
SlurmdPidFile=$cluster/slurmd.pid
SlurmctldLogFile=$cluster/slurmctld.log
SlurmdLogFile=$cluster/slurmd.log
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SchedulerType=sched/builtin
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
KillWait=2
NodeName=$node NodeAddr=127.0.0.1 CPUs=8 Sockets=8 CoresPerSocket=1 ThreadsPerCore=1 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
END
export SLURM_CONF=$cluster/slurm.conf
starts() {
    munged --force -S "$cluster/munge.sock" --key-file="$cluster/munge.key" --pid-file="$cluster/munged.pid" \
        --log-file="$cluster/munged.log" --seed-file="$cluster/munge.seed" &&
        slurmctld -f "$SLURM_CONF" && slurmd -f "$SLURM_CONF" || return 1
    for _ in $(seq 100); do
        [ "$(sinfo --noheader --format=%T 2>/dev/null)" = idle ] && return 0
        sleep 0.2
    done
    return 1
}
if ! starts >"$SCRATCH/start" 2>&1; then
    skip "all of it" "Slurm does not start here: $(tail -n 1 "$SCRATCH/start" "$cluster"/slurm*.log | tr '\n' ' ')"
    finish
    exit
fi

# ---- srun ----

lm=(lm train --num-layers 1 --width 16 --num-heads 2 --batch 24 --lengths 4-6 --context 256 --log-every 4 --yes --quiet --threads 1)
export OMPI_MCA_btl=self,vader OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_mpi_yield_when_idle=1
export MPIR_CVAR_POLLS_BEFORE_YIELD=1 ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0
[ "$mpi" = openmpi ] && interface=pmix other=pmi2 || interface=pmi2 other=pmix
runs() { timeout 120 srun --quiet --mpi="$interface" --kill-on-bad-exit=1 "$@"; }

"$WHET_BIN" "${lm[@]}" --steps 8 -o "$SCRATCH/alone" >/dev/null
same_model() { # ranks
    runs -n "$1" "$WHET_BIN" "${lm[@]}" --steps 8 -o "$SCRATCH/lm-$1" && cmp "$SCRATCH/alone/model.ckpt" "$SCRATCH/lm-$1/model.ckpt"
}
for ranks in 2 3; do
    check "srun --mpi=$interface: $ranks ranks give the weights of one process" same_model $ranks
done

says_who_is_alone() { # interface option ...
    local interface=$1 output
    shift
    output=$(timeout 60 srun --quiet --mpi="$interface" -n 2 "$WHET_BIN" "${lm[@]}" --steps 1 "$@" -o "$SCRATCH/apart" 2>&1) && return 1
    echo "$output"
    grep -q 'srun started 2 tasks, but ' <<<"$output" && [ ! -e "$SCRATCH/apart" ]
}
check "srun without MPI is refused" says_who_is_alone none
[ "$mpi" = mpich ] && check "so is one with the interface of another MPI" says_who_is_alone "$other" --mpi mpich
alone_if_asked() {
    # shellcheck disable=SC2016 # for the shell of each task
    timeout 60 srun --quiet --mpi=none -n 2 bash -c '"$@" -o "$0-$SLURM_PROCID"' "$SCRATCH/none" "$WHET_BIN" "${lm[@]}" --steps 8 --mpi none &&
        cmp "$SCRATCH/alone/model.ckpt" "$SCRATCH/none-1/model.ckpt"
}
check "--mpi none runs each task alone" alone_if_asked

# The guide's script, with a small model on this node.
script_of_guide() {
    sed -n '/^#!\/bin\/bash/,/^```/p' "$WHET_SOURCE_DIR/docs/guides/mpi.md" | sed '/^```/d' |
        sed -e "s/--nodes=4/--nodes=1/; s/--ntasks-per-node=1/--ntasks-per-node=2/; s/--cpus-per-task=16/--cpus-per-task=1/" \
            -e "s/--mpi=pmix/--mpi=$interface/; s/--steps 20000/--steps 8/; s|--out-dir run|--out-dir $SCRATCH/batch|" \
            -e "s|whet lm train|$WHET_BIN ${lm[*]}|; s|--threads 16|--threads 1|" >"$SCRATCH/script"
    grep -q "$WHET_BIN" "$SCRATCH/script" && grep -q '^#SBATCH' "$SCRATCH/script" &&
        timeout 120 sbatch --quiet --wait --output="$SCRATCH/batch.out" "$SCRATCH/script" &&
        cmp "$SCRATCH/alone/model.ckpt" "$SCRATCH/batch/model.ckpt" && return 0
    cat "$SCRATCH/script" "$SCRATCH/batch.out"
    return 1
}
check "the guide's script works" script_of_guide

task_dies() {
    local folder=$SCRATCH/dies job pids
    runs -n 2 "$WHET_BIN" "${lm[@]}" --steps 100000 -o "$folder" >"$SCRATCH/dies.log" 2>&1 &
    job=$!
    for _ in $(seq 300); do
        [ -s "$folder/log.jsonl" ] && break
        sleep 0.1
    done
    pids=$(pgrep -f -- "--steps 100000 -o $folder" | while read -r pid; do
        [ "$(readlink "/proc/$pid/exe")" -ef "$WHET_BIN" ] && echo "$pid"
    done)
    kill -9 "$(tail -n 1 <<<"$pids")" || { cat "$SCRATCH/dies.log"; return 1; }
    if wait "$job"; then
        echo "the job ended well without one of its ranks"
        return 1
    fi
    for pid in $pids; do
        [ "$(readlink "/proc/$pid/exe")" -ef "$WHET_BIN" ] && { echo "$pid is left"; return 1; }
    done
    return 0
}
check "a task that dies ends the step" task_dies
finish
