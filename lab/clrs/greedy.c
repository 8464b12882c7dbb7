/* Greedy choices by a sorted order: activities that do not overlap, tasks that are in time. */
#include "clrs/algorithms.h"

void clrs_activity_selector(clrs_run *run) {
    int n = run->n;
    const double *start = run->first, *finish = run->second;
    int *selected = clrs_zeros(run), *order = clrs_vector(run);
    record(run, vector_state(selected, n));
    clrs_argsort(finish, order, n, run->ties);
    int last = order[0];
    selected[last] = 1;
    record(run, vector_state(selected, n));
    for (int i = 1; i < n; i++) {
        int next = order[i];
        if (start[next] >= finish[last]) {
            selected[next] = 1;
            last = next;
        }
        record(run, vector_state(selected, n));
    }
    output(run, vector_state(selected, n));
}

void clrs_task_scheduling(clrs_run *run) {
    int n = run->n;
    const int *deadline = run->numbers;
    int *selected = clrs_zeros(run), *order = clrs_vector(run);
    double *losses = clrs_vector(run);
    record(run, vector_state(selected, n));
    for (int i = 0; i < n; i++)
        losses[i] = -run->first[i];
    clrs_argsort(losses, order, n, run->ties);
    selected[order[0]] = 1;
    int time = 1;
    record(run, vector_state(selected, n));
    for (int i = 1; i < n; i++) {
        int task = order[i];
        if (time < deadline[task]) {
            selected[task] = 1;
            time++;
        }
        record(run, vector_state(selected, n));
    }
    output(run, vector_state(selected, n));
}
