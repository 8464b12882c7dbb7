/*
 * The script is part of the program and passed to python3 with -c. It answers
 * each line on its standard input with one on its standard output. Both are
 * ends of one socket, since writing to a pipe without a reader would end the
 * program.
 */
#define _POSIX_C_SOURCE 200809L

#include "torch_peer.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* The system's python3 first: only it can import the system's packages. */
static const char *const interpreters[] = {"/usr/bin/python3", "python3"};

static void run_script(const char *interpreter, const char *script, const char *argument,
                       int channel) {
    dup2(channel, STDIN_FILENO);
    dup2(channel, STDOUT_FILENO);
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nowhere >= 0)
        dup2(nowhere, STDERR_FILENO);
    close(channel);
    execlp(interpreter, interpreter, "-c", script, "steps", argument, (char *)NULL);
    _exit(127);
}

static bool read_line(int channel, char *line, size_t size) {
    for (size_t length = 0; length + 1 < size; length++) {
        if (read(channel, line + length, 1) != 1)
            return false;
        if (line[length] == '\n') {
            line[length] = '\0';
            return true;
        }
    }
    return false;
}

static bool start(torch_peer *peer, const char *interpreter, const char *script,
                  const char *argument) {
    int ends[2];
    *peer = (torch_peer){.channel = -1};
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
        return false;
    (void)fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    peer->process = fork();
    if (peer->process == 0) {
        close(ends[0]);
        run_script(interpreter, script, argument, ends[1]);
    }
    close(ends[1]);
    if (peer->process < 0) {
        close(ends[0]);
        return false;
    }
    peer->channel = ends[0];
    if (read_line(peer->channel, peer->version, sizeof peer->version))
        return true;
    bench_torch_close(peer);
    return false;
}

bool bench_torch_open(torch_peer *peer, const char *script, const char *argument) {
    for (size_t i = 0; i < sizeof interpreters / sizeof interpreters[0]; i++)
        if (start(peer, interpreters[i], script, argument))
            return true;
    snprintf(peer->version, sizeof peer->version, "none (needs python3 with torch)");
    return false;
}

void bench_torch_close(torch_peer *peer) {
    if (peer->channel < 0)
        return;
    close(peer->channel); /* the end of its input ends the script */
    waitpid(peer->process, NULL, 0);
    peer->channel = -1;
}

bool bench_torch_steps(torch_peer *peer, unsigned steps) {
    char line[64];
    int length = snprintf(line, sizeof line, "%u\n", steps);
    return send(peer->channel, line, (size_t)length, MSG_NOSIGNAL) == length &&
           read_line(peer->channel, line, sizeof line);
}
