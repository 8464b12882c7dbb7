/* The same model in torch, in a separate process that trains on request. */
#ifndef WHET_BENCH_TORCH_PEER_H
#define WHET_BENCH_TORCH_PEER_H

#include <stdbool.h>
#include <sys/types.h>

typedef struct torch_peer {
    pid_t process;
    int channel;      /* -1: none */
    char version[48]; /* "torch 2.1.0", or why there is none */
} torch_peer;

/* Runs a script (its text) with "steps" and another argument, which may be NULL. False if there is
 * no python3 with torch. */
bool bench_torch_open(torch_peer *peer, const char *script, const char *argument);
void bench_torch_close(torch_peer *peer);

/* Trains for this many steps; false if the process has ended. */
bool bench_torch_steps(torch_peer *peer, unsigned steps);

#endif
