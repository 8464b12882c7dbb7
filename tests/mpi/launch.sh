# shellcheck shell=bash
# Starts a program under an MPI launcher, as root if need be, with more ranks than processors:
#
#     launch openmpi|mpich MPIRUN RANKS PROGRAM [ARGUMENT ...]
#
# Ranks that wait give up the processor, and nothing goes over the network. What MPI itself leaves behind is not reported
# by AddressSanitizer, unless WHET_DETECT_LEAKS is 1 since the program tells it apart.
launch() {
    local mpi=$1 mpirun=$2 ranks=$3 ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=${WHET_DETECT_LEAKS:-0}
    export ASAN_OPTIONS
    shift 3
    if [ "$mpi" = openmpi ]; then
        OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1 \
            OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_btl=self,vader \
            OMPI_MCA_btl_vader_single_copy_mechanism=none "$mpirun" -n "$ranks" "$@"
    else
        MPIR_CVAR_POLLS_BEFORE_YIELD=1 "$mpirun" -n "$ranks" "$@"
    fi
}
