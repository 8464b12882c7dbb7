/*
 * Finding and loading the module of an MPI. Open MPI and MPICH have different binary interfaces:
 * there is a module for each, whet-mpi-openmpi.so and whet-mpi-mpich.so, beside the program in a
 * build or in lib/whet below its prefix; WHET_MPI_MODULES names another folder.
 */
#include "base/ranks.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_set(const char *variable) {
    const char *value = getenv(variable);
    return value && *value;
}

/* srun sets PMIX_RANK or PMI_RANK, according to the interface it was told to provide: Debian's Open
 * MPI speaks PMIx, its MPICH PMI. */
const char *lab_ranks_launcher(void) {
    if (is_set("OMPI_COMM_WORLD_SIZE") || is_set("PMIX_RANK"))
        return "openmpi";
    return is_set("PMI_RANK") ? "mpich" : NULL;
}

/* Tasks that srun has started without an MPI's launcher in between, if there are several; or 0. */
static unsigned long tasks_of_srun(void) {
    const char *tasks = getenv("SLURM_STEP_NUM_TASKS"), *size = getenv("PMI_SIZE");
    if (!tasks || !is_set("SLURM_PROCID") || is_set("OMPI_COMM_WORLD_SIZE") ||
        (size && strcmp(size, "1") == 0)) /* of mpiexec -n 1 */
        return 0;
    unsigned long count = strtoul(tasks, NULL, 10);
    return count > 1 ? count : 0;
}

/* Each of srun's tasks would take itself for the only one. */
static bool fail_alone(const char *mpi, lab_error *error) {
    return lab_fail(error, LAB_INPUT,
                    "srun started %lu tasks, but %s%s; use srun --mpi=pmix for Open MPI or "
                    "--mpi=pmi2 for MPICH, or give whet --mpi none",
                    tasks_of_srun(), mpi ? mpi : "without MPI", mpi ? " sees one process" : "");
}

static void *load_from(const char *folder, const char *mpi, char *reason, size_t size) {
    char path[4096];
    snprintf(path, sizeof path, "%s/whet-mpi-%s.so", folder, mpi);
    if (access(path, R_OK) != 0)
        return NULL;
    /* the parts of Open MPI, which it loads itself, look for its symbols among all */
    void *module = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (!module)
        snprintf(reason, size, "%s", dlerror());
    return module;
}

static void *load(const char *mpi, char *reason, size_t size) {
    static const char *const places[] = {"mpi", "../lib/whet", "../lib64/whet",
                                         "../lib/x86_64-linux-gnu/whet",
                                         "../lib/aarch64-linux-gnu/whet"};
    char program[2048], folder[4096];
    const char *given = getenv("WHET_MPI_MODULES");
    if (given && *given)
        return load_from(given, mpi, reason, size);
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(program, '/');
    if (slash)
        *slash = '\0';
    void *module = NULL;
    for (size_t i = 0; !module && i < sizeof places / sizeof places[0]; i++) {
        snprintf(folder, sizeof folder, "%s/%s", program, places[i]);
        module = load_from(folder, mpi, reason, size);
    }
    return module;
}

bool lab_ranks_open(const char *mpi, lab_ranks *ranks, lab_error *error) {
    char reason[400] = "";
    *ranks = (lab_ranks){.size = 0};
    mpi = mpi && *mpi ? mpi : lab_ranks_launcher();
    if (!mpi)
        return tasks_of_srun() == 0 || fail_alone(NULL, error);
    if (strcmp(mpi, "none") == 0)
        return true;
    void *module = load(mpi, reason, sizeof reason);
    if (!module)
        return lab_fail(error, LAB_SYSTEM, "%s: no module for this MPI%s%s; --mpi none runs alone",
                        mpi, *reason ? ": " : "", reason);
    lab_ranks_start start;
    void *found = dlsym(module, LAB_RANKS_START);
    memcpy(&start, &found, sizeof start);
    if (!found || !start(ranks))
        return lab_fail(error, LAB_SYSTEM, "%s: MPI does not start", mpi);
    if (ranks->size == 1 && tasks_of_srun() > 0)
        return fail_alone(mpi, error);
    if (ranks->size > 4096)
        return lab_fail(error, LAB_INPUT, "%d ranks: at most 4096 are supported", ranks->size);
    return true;
}
