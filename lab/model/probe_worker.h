/*
 * The part of a probe that runs in a process of its own: it loads llama.cpp
 * with the plug-in and the model, feeds the prompts and reports a JSON object a
 * line:
 *
 *   {"version": ..., "sizes": n, "tokens": n}     the plan
 *   {"prompt": i, "tokens": n, "first": e, "count": n, "answer": ...}
 *   {"judged": n, "perplexity": x}
 *   {"evaluations": n}                            at the end
 *   {"error": ..., "kind": n}                     instead of it
 *   {"fed": n}                                    tokens, now and then
 */
#ifndef WHET_LAB_MODEL_PROBE_WORKER_H
#define WHET_LAB_MODEL_PROBE_WORKER_H

#include "model/probe.h"

/* Runs to its end and returns the exit status of the process. */
int probe_work(const probe_request *request, const prompt_list *prompts, const char *library,
               const char *plugin, FILE *out);

#endif
