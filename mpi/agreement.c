/* Agreement on errors: see agreement.h. */
#include "agreement.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SENTENCE_MAX 512
#define SHARED_MAX 40

static _Thread_local char sentence[SENTENCE_MAX];

const char *whet_mpi_last_error(void) { return sentence; }

whet_status whet_mpi_refuse(whet_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): va_start is above */
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    return status;
}

whet_status whet_mpi_pass_on(whet_status status) {
    return whet_mpi_refuse(status, "%s", whet_last_error());
}

whet_status whet_mpi_agree(communicator *c, whet_status status) {
    int mine = status > WHET_NOT_FINITE ? c->rank : c->size, first;
    MPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, c->comm);
    if (first == c->size)
        return status;
    struct {
        int status;
        char text[SENTENCE_MAX];
    } said = {.status = (int)status};
    if (first == c->rank)
        memcpy(said.text, sentence, sizeof said.text);
    MPI_Bcast(&said, (int)sizeof said, MPI_BYTE, first, c->comm);
    said.text[sizeof said.text - 1] = 0;
    return whet_mpi_refuse((whet_status)said.status, "rank %d: %s", first, said.text);
}

uint64_t whet_mpi_hash(const void *bytes, size_t count, uint64_t seed) {
    const unsigned char *b = bytes;
    uint64_t hash = seed ^ UINT64_C(14695981039346656037);
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ b[i]) * UINT64_C(1099511628211);
    return hash;
}

whet_status whet_mpi_agree_on(communicator *c, const shared_number *numbers, size_t count) {
    uint64_t first[SHARED_MAX] = {0};
    if (count > SHARED_MAX)
        return WHET_ERROR_UNSUPPORTED;
    for (size_t i = 0; i < count; i++)
        first[i] = numbers[i].value;
    MPI_Bcast(first, SHARED_MAX, MPI_UINT64_T, 0, c->comm);
    whet_status status = WHET_OK;
    for (size_t i = 0; i < count && status == WHET_OK; i++) {
        const shared_number *n = &numbers[i];
        if (n->value == first[i])
            continue;
        status = n->is_hash ? whet_mpi_refuse(WHET_ERROR_ARGUMENT, "%s differs from that of rank 0",
                                              n->name)
                            : whet_mpi_refuse(WHET_ERROR_ARGUMENT,
                                              "%s is %" PRIu64 ", but %" PRIu64 " on rank 0",
                                              n->name, n->value, first[i]);
    }
    return whet_mpi_agree(c, status);
}
