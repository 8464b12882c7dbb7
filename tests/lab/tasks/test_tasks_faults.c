/* Memory that runs out while samples are drawn. */
#include "support/lab_faults.h"

#include "tasks/tasks.h"

static const task_kind *task;

static bool draw(lab_error *error) {
    task_sample sample = {.tokens = NULL};
    bool is_drawn = task_draw(task, 300, 1, &sample);
    task_sample_free(&sample);
    return is_drawn || lab_fail_memory(error);
}

TEST(every_task_reports_when_memory_runs_out) {
    for (size_t i = 0; (task = task_at(i)) != NULL; i++)
        lab_faults_try(draw, NULL);
}
