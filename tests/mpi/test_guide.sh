#!/usr/bin/env bash
# The commands of docs/guides/mpi.md: from one machine to a cluster, and the Slurm script, of which srun is played by the
# launcher. Arguments: openmpi|mpich MPIRUN.
# shellcheck disable=SC2317 # the functions are called through check
set -u
# shellcheck source=tests/support/check.sh
. "$WHET_SOURCE_DIR/tests/support/check.sh"

mpi=$1 mpirun=$2
guide=$WHET_SOURCE_DIR/docs/guides/mpi.md
mkdir "$SCRATCH/bin" "$SCRATCH/work"
ln -s "$WHET_SOURCE_DIR/examples" "$SCRATCH/work/examples"

# Blocks of the guide: the one that has a line.
block_with() {
    awk -v wanted="$1" '/^```/ { if (inside && found) { printf "%s", text; exit }
        inside = !inside; text = ""; found = 0; next }
        inside { text = text $0 "\n"; if (index($0, wanted)) found = 1 }' "$guide"
}

# mpirun and srun as in the guide, with what a single machine needs.
for name in mpirun srun; do
    cat >"$SCRATCH/bin/$name" <<STAND_IN
#!/usr/bin/env bash
. "$WHET_SOURCE_DIR/tests/mpi/launch.sh"
ranks=4
while :; do
    case \$1 in
    -n) ranks=\$2; shift 2 ;;
    --hostfile) shift 2 ;; # this machine alone
    --*) shift ;;
    *) break ;;
    esac
done
echo "\$ranks" >>"$SCRATCH/$name-ranks"
launch "$mpi" "$mpirun" "\$ranks" "\$@"
STAND_IN
    chmod +x "$SCRATCH/bin/$name"
done
compiler=$(command -v "mpicc.$mpi" || command -v mpicc)
ln -s "$compiler" "$SCRATCH/bin/mpicc"
ln -s "$WHET_BIN" "$SCRATCH/bin/whet"
export PATH=$SCRATCH/bin:$PATH

run_commands() { # all but those that need root or another machine
    block_with 'mpicc examples/mpi_decode.c' >"$SCRATCH/commands"
    [ "$(wc -l <"$SCRATCH/commands")" = 5 ] || return 1
    cmake --install "$WHET_BUILD_DIR" --prefix "$SCRATCH/prefix" >/dev/null || return 1
    local folder
    folder=$(dirname "$(find "$SCRATCH/prefix" -name "whet-mpi-$mpi.pc")")
    export PKG_CONFIG_PATH=$folder LD_LIBRARY_PATH=${folder%/pkgconfig}
    sed "/^apt-get /d; /^make install$/d; s/whet-mpi-openmpi/whet-mpi-$mpi/" "$SCRATCH/commands" >"$SCRATCH/run"
    (cd "$SCRATCH/work" && bash -eu "$SCRATCH/run") >"$SCRATCH/out" 2>&1 || { cat "$SCRATCH/out"; return 1; }
    [ "$(cat "$SCRATCH/mpirun-ranks")" = "2
16" ] && [ "$(grep -c ^adaptive "$SCRATCH/out")" = 2 ] || { cat "$SCRATCH/out"; return 1; }
    [ "$(grep ^adaptive "$SCRATCH/out" | sort -u | wc -l)" = 1 ]
}
if [ -n "${WHET_INSTRUMENTED:-}" ]; then
    skip "the five commands compile and run the example" "mpicc links without the sanitizers of this build"
elif [ -f "$WHET_BUILD_DIR/cmake_install.cmake" ]; then
    check "the five commands compile and run the example" run_commands
fi

run_script() {
    block_with '#SBATCH' >"$SCRATCH/script"
    bash -n "$SCRATCH/script" && grep -q '^srun ' "$SCRATCH/script" || return 1
    # as it is, but for a model that is made in a moment
    sed 's/--threads 16/--threads 1/; s/--steps 20000/--steps 4 --num-layers 1 --width 16 --num-heads 2 --batch 8 --lengths 4-6/' \
        "$SCRATCH/script" >"$SCRATCH/small"
    (cd "$SCRATCH/work" && timeout 120 bash -eu "$SCRATCH/small") >"$SCRATCH/out" 2>&1 || { cat "$SCRATCH/out"; return 1; }
    [ -f "$SCRATCH/work/run/model.ckpt" ] && [ "$(cat "$SCRATCH/srun-ranks")" = 4 ]
}
check "the Slurm script trains" run_script
finish
