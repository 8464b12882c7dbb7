/* The files of a run: found or refused, resumed, written when due. */
#include "nn/run_folder.h"

#include "base/clock.h"
#include "base/files.h"
#include "base/signals.h"
#include "nn/checkpoint.h"

#include <stdlib.h>

static const char checkpoint_key[] = "checkpoint_every", log_key[] = "log_every";

void nn_run_folder_to_json(const nn_run_folder *folder, json_t *options) {
    json_object_set_new(options, checkpoint_key,
                        json_integer((json_int_t)folder->checkpoint_interval));
    json_object_set_new(options, log_key, json_integer((json_int_t)folder->log_interval));
}

void nn_run_folder_from_json(nn_run_folder *folder, const json_t *options) {
    lab_json_take_count(options, checkpoint_key, &folder->checkpoint_interval);
    lab_json_take_count(options, log_key, &folder->log_interval);
}

bool nn_run_folder_allows(const nn_run_folder *folder, const char *checkpoint, lab_error *error) {
    return folder->resume || !lab_file_exists(checkpoint) ||
           lab_fail(error, LAB_INPUT,
                    "%s: already exists; use --resume to continue it, or another --out-dir",
                    checkpoint);
}

uint64_t nn_run_folder_left(const nn_run_folder *folder, const char *checkpoint, uint64_t steps) {
    nn_checkpoint read = {.step = 0};
    if (!nn_run_folder_allows(folder, checkpoint, NULL))
        return 0;
    if (lab_file_exists(checkpoint))
        nn_checkpoint_read(checkpoint, &read, NULL);
    uint64_t done = read.step;
    nn_checkpoint_free(&read);
    return done < steps ? steps - done : 0;
}

double nn_time_steps(bool (*step)(void *trainer), void *trainer) {
    enum { STEPS = 24 };
    if (!step(trainer)) /* untimed: the first one allocates */
        return 0;
    const double began = lab_now(), longest = 2;
    int done = 0;
    do {
        if (lab_interrupted() || !step(trainer))
            return 0;
        done++;
    } while (done < STEPS && lab_now() - began < longest);
    return (lab_now() - began) / done;
}

bool nn_fail_stopped(const nn_run_folder *folder, uint64_t done, uint64_t total, lab_error *error) {
    return lab_fail(error, LAB_STOPPED, "stopped after %llu of %llu steps%s",
                    (unsigned long long)done, (unsigned long long)total,
                    folder->path ? "; continue with --resume" : "");
}

bool nn_files_name(nn_files *files, const nn_run_folder *folder, const char *checkpoint,
                   const char *log_name, lab_error *error) {
    files->checkpoint = lab_path(folder->path, "%s", checkpoint);
    files->log_path = lab_path(folder->path, "%s", log_name);
    return (files->checkpoint && files->log_path) || lab_fail_memory(error);
}

bool nn_files_open_log(nn_files *files, const nn_run_folder *folder, uint64_t done,
                       lab_error *error) {
    if (folder->log_interval == 0)
        return true;
    json_t *last_kept;
    if (!lab_json_log_cut(files->log_path, "step", done, &last_kept, error))
        return false;
    files->seconds = json_number_value(json_object_get(last_kept, "seconds"));
    json_decref(last_kept);
    files->log = fopen(files->log_path, done > 0 ? "a" : "w");
    return files->log || lab_fail_file(error, "write", files->log_path);
}

bool nn_files_log(nn_files *files, json_t *line, lab_error *error) {
    return lab_json_log(files->log, line) || lab_fail_file(error, "write", files->log_path);
}

bool nn_files_are_due(const nn_files *files, const nn_run_folder *folder, uint64_t step,
                      uint64_t last) {
    return files->checkpoint && step < last && nn_is_multiple(step, folder->checkpoint_interval);
}

bool nn_files_close(nn_files *files, lab_error *error) {
    bool is_good =
        !files->log || fclose(files->log) == 0 || lab_fail_file(error, "write", files->log_path);
    free(files->checkpoint);
    free(files->log_path);
    *files = (nn_files){.log = NULL};
    return is_good;
}
