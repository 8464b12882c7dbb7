# shellcheck shell=bash
# Sourced by tests that start hosts. The plug-in refuses variables that begin with WHET_ and are no settings of its: those that
# the tests are told things by stay variables of the script and leave the environment of what it starts.
unset WHET_POLICY WHET_CONFIG WHET_STATS WHET_STATS_ROWS WHET_STRENGTH WHET_LAYERS WHET_HEADS WHET_VERBOSE GGML_BACKEND_PATH LD_PRELOAD
for name in "${!WHET_@}"; do
    [ "$name" = WHET_ISA ] || export -n "${name?}"
done
# What driver/driver.c loads backends from.
export LLAMA_LIBRARIES=${WHET_LLAMA_LIB:-}
