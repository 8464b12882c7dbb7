# shellcheck shell=bash
# Sourced by tests that start hosts. The plug-in refuses unknown variables that begin with WHET_: those that configure the tests
# remain variables of the script but are not exported to the programs it starts.
unset WHET_POLICY WHET_CONFIG WHET_STATS WHET_STATS_ROWS WHET_STRENGTH WHET_SKIP WHET_INVARIANT WHET_LAYERS WHET_HEADS WHET_VERBOSE GGML_BACKEND_PATH LD_PRELOAD
for name in "${!WHET_@}"; do
    [ "$name" = WHET_ISA ] || export -n "${name?}"
done
# The folder from which driver/driver.c loads backends.
export LLAMA_LIBRARIES=${WHET_LLAMA_LIB:-}
