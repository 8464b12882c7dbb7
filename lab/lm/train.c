/* The loop around the trainer: progress, a log, checkpoints, signals. */
#include "lm/train.h"

#include "base/clock.h"
#include "base/files.h"
#include "base/folder_lock.h"
#include "base/manifest.h"
#include "base/progress.h"
#include "base/signals.h"
#include "nn/checkpoint.h"

#include <stdlib.h>
#include <string.h>

static const char command_name[] = "lm train"; /* in manifests */

/* Sums since the last line of the log. */
typedef struct sums {
    double loss, answer_loss, norm;
    uint64_t steps, tokens, answer_tokens, right;
    lm_tally all, tasks[CLRS_ALGORITHM_COUNT];
    double began;
} sums;

typedef struct session {
    const lm_run *run;
    lab_manifest *manifest; /* NULL: of a run that writes nothing */
    lm_trainer *trainer;
    nn_files files;
    lab_progress progress;
    double began; /* when this run would have begun without interruptions */
    sums sums;
    double shown_loss, shown_exact; /* smoothed, for the progress line */
    lm_summary *summary;
} session;

static double share_of(lm_tally tally) {
    return tally.sequences ? (double)tally.exact / (double)tally.sequences : 0;
}

static void add_tally(lm_tally *sum, lm_tally tally) {
    sum->sequences += tally.sequences;
    sum->exact += tally.exact;
}

static void add_step(session *own, const lm_step *step) {
    sums *sum = &own->sums;
    sum->steps++;
    sum->loss += step->loss;
    sum->answer_loss += step->answer_loss;
    sum->norm += step->norm;
    sum->tokens += step->tokens;
    sum->answer_tokens += step->answer_tokens;
    sum->right += step->right;
    add_tally(&sum->all, step->all);
    for (size_t i = 0; i < own->run->training.task_count; i++)
        add_tally(&sum->tasks[i], step->tasks[i]);
    double share = own->shown_loss == 0 ? 1 : 0.02;
    own->shown_loss += share * (step->loss - own->shown_loss);
    own->shown_exact += share * (share_of(step->all) - own->shown_exact);
    own->summary->tokens += step->tokens;
}

static json_t *tasks_to_json(const session *own) {
    json_t *tasks = json_object();
    for (size_t i = 0; tasks && i < own->run->training.task_count; i++)
        json_object_set_new(tasks, own->run->training.tasks[i].algorithm->name,
                            json_real(share_of(own->sums.tasks[i])));
    return tasks;
}

/* Also stores the line's values in the summary. */
static bool write_log(session *own, const lm_step *step, lab_error *error) {
    const sums *sum = &own->sums;
    double count = (double)sum->steps, seconds = lab_now() - sum->began;
    bool is_written =
        !own->files.log ||
        nn_files_log(
            &own->files,
            json_pack("{s:I, s:f, s:f, s:f, s:f, s:o, s:f, s:f, s:f, s:I, s:f}", "step",
                      (json_int_t)lm_trainer_done(own->trainer), "loss", sum->loss / count,
                      "answer_loss", sum->answer_loss / count, "right",
                      (double)sum->right / (double)(sum->answer_tokens ? sum->answer_tokens : 1),
                      "exact", share_of(sum->all), "exact_by_algorithm", tasks_to_json(own), "norm",
                      sum->norm / count, "rate", step->rate, "tokens_per_second",
                      (double)sum->tokens / (seconds > 0 ? seconds : 1), "left_out",
                      (json_int_t)step->left_out, "seconds", lab_now() - own->began),
            error);
    own->summary->loss = sum->loss / count;
    own->summary->all = sum->all;
    memcpy(own->summary->tasks, sum->tasks, sizeof sum->tasks);
    own->sums = (sums){.began = lab_now()};
    return is_written;
}

enum { SUMS_ALONE = 10 }; /* before those of each task */

/* Saves a checkpoint together with the pending sums of the log. */
static bool save(session *own, lab_error *error) {
    const sums *sum = &own->sums;
    nn_log_sums *kept = lm_trainer_log_sums(own->trainer);
    *kept = (nn_log_sums){.count = 0};
    if (own->files.log && sum->steps > 0) {
        const double now = lab_now();
        *kept = (nn_log_sums){.count = SUMS_ALONE + 2 * own->run->training.task_count,
                              .values = {sum->loss, sum->answer_loss, sum->norm, (double)sum->steps,
                                         (double)sum->tokens, (double)sum->answer_tokens,
                                         (double)sum->right, (double)sum->all.sequences,
                                         (double)sum->all.exact, now - sum->began},
                              .seconds = now - own->began};
        for (size_t i = 0; i < own->run->training.task_count; i++) {
            kept->values[SUMS_ALONE + 2 * i] = (double)sum->tasks[i].sequences;
            kept->values[SUMS_ALONE + 2 * i + 1] = (double)sum->tasks[i].exact;
        }
    }
    return lm_trainer_save(own->trainer, own->files.checkpoint, error);
}

static lm_tally tally_of(const double *values) {
    return (lm_tally){.sequences = (uint64_t)values[0], .exact = (uint64_t)values[1]};
}

static void take_sums(session *own) {
    const nn_log_sums *kept = lm_trainer_log_sums(own->trainer);
    const double *values = kept->values, now = lab_now();
    size_t tasks = own->run->training.task_count;
    bool is_good = nn_log_sums_are_good(kept, SUMS_ALONE + 2 * tasks);
    own->began = now - (is_good ? kept->seconds : own->files.seconds);
    own->sums = (sums){.began = now};
    if (!is_good)
        return;
    own->sums = (sums){.loss = values[0],
                       .answer_loss = values[1],
                       .norm = values[2],
                       .steps = (uint64_t)values[3],
                       .tokens = (uint64_t)values[4],
                       .answer_tokens = (uint64_t)values[5],
                       .right = (uint64_t)values[6],
                       .all = tally_of(values + 7),
                       .began = now - values[9]};
    for (size_t i = 0; i < tasks; i++)
        own->sums.tasks[i] = tally_of(values + SUMS_ALONE + 2 * i);
}

static void show_progress(session *own) {
    if (!lab_progress_is_due(&own->progress))
        return;
    double seconds = lab_now() - own->progress.began;
    lab_progress_show(&own->progress, lm_trainer_done(own->trainer),
                      "loss %.4f, exact %.1f %%, %.0f tokens/s", own->shown_loss,
                      100 * own->shown_exact,
                      (double)own->summary->tokens / (seconds > 0 ? seconds : 1));
}

static bool take_step(session *own, lab_error *error) {
    const lm_run *run = own->run;
    uint64_t last = run->training.steps;
    lm_step result;
    if (!lm_trainer_step(own->trainer, &result, error))
        return false;
    uint64_t step = lm_trainer_done(own->trainer);
    add_step(own, &result);
    bool is_logged = nn_is_multiple(step, run->folder.log_interval) || step == last;
    if (is_logged && !write_log(own, &result, error))
        return false;
    if (nn_files_are_due(&own->files, &run->folder, step, last) && !save(own, error))
        return false;
    show_progress(own);
    return true;
}

/* Ranks ask each other before every step, also after an error of one. */
static bool train_on(session *own, lab_error *error) {
    const lm_run *run = own->run;
    bool is_good = true;
    while (!lab_ranks_any(run->ranks, !is_good || lab_interrupted()) &&
           lm_trainer_done(own->trainer) < run->training.steps)
        is_good = take_step(own, error);
    is_good = is_good && (!own->files.checkpoint || save(own, error));
    return lab_ranks_agree(run->ranks, is_good, error);
}

/* Finds where to resume, or refuses to: before that nothing in the folder is touched. */
static bool take_up(session *own, lab_error *error) {
    const nn_run_folder *folder = &own->run->folder;
    return nn_files_name(&own->files, folder, "model.ckpt", "log.jsonl", error) &&
           nn_run_folder_allows(folder, own->files.checkpoint, error) &&
           (!lab_file_exists(own->files.checkpoint) ||
            lm_trainer_restore(own->trainer, own->files.checkpoint, error));
}

static bool open_files(session *own, lab_error *error) {
    const nn_run_folder *folder = &own->run->folder;
    return !own->manifest ||
           (take_up(own, error) && lab_manifest_write(own->manifest, folder->path, false, error) &&
            nn_files_open_log(&own->files, folder, lm_trainer_done(own->trainer), error));
}

/* Before anything is allocated, so that it is printed even if memory does not suffice. */
static bool tell_size(const lm_run *run, lab_error *error) {
    lm_needs needs;
    if (!lm_trainer_needs(&run->config, &run->training, run->executor, &needs, error))
        return false;
    if (!run->quiet)
        fprintf(stderr, "%s: %zu parameters; training takes about %.0f MB of memory\n",
                run->title ? run->title : "training", needs.parameters, (double)needs.bytes / 1e6);
    return true;
}

static bool run_session(session *own, lab_error *error) {
    const lm_run *run = own->run;
    if (!lab_ranks_agree(run->ranks, open_files(own, error), error) ||
        (run->ranks &&
         !lab_ranks_agree(run->ranks, lm_trainer_join(own->trainer, run->ranks, error), error)))
        return false;
    own->progress =
        lab_progress_begin(run->title ? run->title : "training", lm_trainer_done(own->trainer),
                           run->training.steps, run->quiet);
    take_sums(own);
    bool is_done = train_on(own, error);
    lab_progress_end(&own->progress);
    own->summary->parameters = lm_trainer_parameters(own->trainer);
    own->summary->steps = lm_trainer_done(own->trainer);
    own->summary->seconds = lab_now() - own->progress.began;
    if (is_done && own->summary->steps < run->training.steps)
        return nn_fail_stopped(&run->folder, own->summary->steps, run->training.steps, error);
    return is_done;
}

static bool train_in_folder(const nn_engine *engine, const lm_run *run, lab_manifest *manifest,
                            lm_summary *summary, lab_error *error) {
    session own = {.run = run, .manifest = manifest, .summary = summary};
    own.trainer = lm_trainer_create(engine, &run->config, &run->training, run->executor, error);
    bool is_done =
        lab_ranks_agree(run->ranks, own.trainer != NULL, error) && run_session(&own, error);
    is_done = nn_files_close(&own.files, error) && is_done;
    lm_trainer_destroy(own.trainer);
    return is_done;
}

static json_t *run_options(const lm_run *run) {
    unsigned mark = lab_json_mark();
    json_t *options = json_pack("{s:o, s:o}", "shape", lm_config_to_json(&run->config), "training",
                                lm_training_to_json(&run->training));
    nn_run_folder_to_json(&run->folder, options);
    return lab_json_whole(options, mark);
}

static bool train_alone(const nn_engine *engine, const lm_run *run, lm_summary *summary,
                        lab_error *error) {
    lab_manifest manifest =
        lab_manifest_begin(command_name, run_options(run), engine->blas.description);
    bool is_done = train_in_folder(engine, run, &manifest, summary, error) &&
                   lab_manifest_write(&manifest, run->folder.path, true, error);
    lab_manifest_end(&manifest);
    return is_done;
}

/* Of a run that writes nothing, or whose files another process writes. */
static bool train_without_files(const nn_engine *engine, const lm_run *run, lm_summary *summary,
                                lab_error *error) {
    lm_run own = *run;
    bool is_folder_good = !run->folder.path || lab_ranks_agree(run->ranks, true, error);
    own.folder.path = NULL;
    return is_folder_good && train_in_folder(engine, &own, NULL, summary, error);
}

bool lm_train(const nn_engine *engine, const lm_run *run, lm_summary *summary, lab_error *error) {
    lab_folder_lock lock = lab_folder_unlocked();
    lm_summary ignored = {.steps = 0};
    summary = summary ? summary : &ignored;
    *summary = (lm_summary){.steps = 0};
    if (!lm_config_check(&run->config, error) || !lm_training_check(&run->training, error) ||
        !tell_size(run, error))
        return false;
    if (run->ranks && !lab_ranks_same_options(run->ranks, run_options(run), error))
        return false;
    if (!run->folder.path || !lab_is_first(run->ranks))
        return lab_ranks_agree(run->ranks, train_without_files(engine, run, summary, error), error);
    bool is_taken =
        lab_make_folder(run->folder.path, error) && lab_folder_take(&lock, run->folder.path, error);
    bool is_done =
        lab_ranks_agree(run->ranks, is_taken, error) && train_alone(engine, run, summary, error);
    lab_folder_release(&lock);
    return lab_ranks_agree(run->ranks, is_done, error);
}

/* ---- how long it will take ---- */

static bool try_step(void *trainer) {
    lm_step unused;
    return lm_trainer_step(trainer, &unused, NULL);
}

double lm_train_seconds(const nn_engine *engine, const lm_run *run) {
    enum { FEW = 64 };
    char *path = lab_path(run->folder.path, "model.ckpt");
    uint64_t left = path ? nn_run_folder_left(&run->folder, path, run->training.steps) : 0;
    free(path);
    if (left <= FEW)
        return 0;
    lm_training training = run->training;
    training.curriculum = 0; /* lengths as they will be in the end */
    lm_trainer *trainer = lm_trainer_create(engine, &run->config, &training, run->executor, NULL);
    double seconds = trainer ? nn_time_steps(try_step, trainer) * (double)left : 0;
    lm_trainer_destroy(trainer);
    return seconds;
}

/* ---- what a run was ---- */

/* `json` (or NULL) has members "shape" and "training", as checkpoints and manifests do. */
static bool take_choices(json_t *json, const char *path, lm_run *run, lab_error *error) {
    json_t *shape = json_object_get(json, "shape"), *training = json_object_get(json, "training");
    return (!shape || lm_config_from_json(shape, path, &run->config, error)) &&
           (!training || lm_training_from_json(training, path, &run->training, error));
}

static bool recall_checkpoint(const char *path, lm_run *run, lab_error *error) {
    nn_checkpoint read;
    if (!lab_file_exists(path))
        return true;
    if (!nn_checkpoint_read(path, &read, error))
        return false;
    bool is_good = take_choices(read.description, path, run, error);
    nn_checkpoint_free(&read);
    return is_good;
}

bool lm_run_recall(lm_run *run, lab_error *error) {
    json_t *options;
    if (!lab_manifest_options(run->folder.path, command_name, &options, error))
        return false;
    nn_run_folder_from_json(&run->folder, options);
    char *path = lab_path(run->folder.path, "model.ckpt");
    bool is_good = path ? take_choices(options, run->folder.path, run, error) &&
                              recall_checkpoint(path, run, error)
                        : lab_fail_memory(error);
    free(path);
    json_decref(options);
    return is_good;
}
