/* Memory that runs out while tasks are opened and examples drawn. */
#define _POSIX_C_SOURCE 200809L

#include "support/lab_faults.h"

#include "tune/task.h"

#include <stdio.h>
#include <unistd.h>

enum { TEXT = 400, LENGTH = 200, EXAMPLES = 3 };

static lm_tokenizer tokenizer;
static lm_token text[TEXT];
static const char *name;
static char path[64];

__attribute__((destructor)) static void remove_file(void) {
    if (path[0])
        unlink(path);
    lm_tokenizer_free(&tokenizer);
}

static bool open_and_draw(lab_error *error) {
    tune_task task;
    tune_examples examples = {.list = NULL};
    bool good =
        tune_task_open(name, &task, error) &&
        tune_task_draw(&task, &tokenizer, NULL, text, TEXT, LENGTH, 1, EXAMPLES, &examples, error);
    CHECK_INT(examples.count, good ? EXAMPLES : 0);
    tune_examples_free(&examples);
    tune_task_close(&task);
    return good;
}

static void check_task(const char *task) {
    lab_error error = {0};
    if (!tokenizer.pieces)
        REQUIRE(lm_tokenizer_clrs(&tokenizer, &error));
    for (size_t i = 0; i < TEXT; i++)
        text[i] = 'a' + (lm_token)(i * i / 7 % 26);
    name = task;
    lab_faults_try(open_and_draw, NULL);
}

TEST(copying_reports_when_memory_runs_out) { check_task("copy"); }
TEST(keys_report_when_memory_runs_out) { check_task("keys"); }
TEST(needles_report_when_memory_runs_out) { check_task("needle"); }

TEST(files_report_when_memory_runs_out) {
    snprintf(path, sizeof path, "/tmp/whet-tune-faults-%ld.jsonl", (long)getpid());
    FILE *file = fopen(path, "w");
    REQUIRE(file != NULL);
    for (int i = 0; i < 5; i++)
        fprintf(file, "{\"prompt\": \"what is %d?\", \"answer\": \" %d\"}\n", i, i);
    REQUIRE(fclose(file) == 0);
    check_task(path);
}
