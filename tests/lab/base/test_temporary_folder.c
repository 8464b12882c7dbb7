/* Temporary folders: private, removed with the run, and removed by the next one if the run was
 * killed. */
#include "support/check.h"

#include "base/atomic_file.h"
#include "base/files.h"
#include "base/temporary_folder.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char place[64];

static void make_place(void) {
    snprintf(place, sizeof place, "/tmp/whet-places.XXXXXX");
    REQUIRE(mkdtemp(place));
    REQUIRE(setenv("TMPDIR", place, 1) == 0);
}

static void remove_place(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", place);
    CHECK_INT(system(command), 0); /* NOLINT(cert-env33-c): a path of the test's own */
    unsetenv("TMPDIR");
}

static void put_file(const char *in, const char *name) {
    char *path = lab_path(in, "%s", name);
    CHECK(path && replace_file_bytes(path, "x", 1));
    free(path);
}

/* A run that made a folder with a file and was killed; its folder's path is stored. */
static void leave_one(char *path, size_t size) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    pid_t child = fork();
    if (child == 0) {
        lab_temporary_folder folder;
        if (lab_temporary_folder_make(&folder, "whet-run", NULL)) {
            put_file(folder.path, "rows.csv");
            if (write(ends[1], folder.path, strlen(folder.path)) > 0)
                pause();
        }
        _exit(1);
    }
    ssize_t length = read(ends[0], path, size - 1);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(ends[0]);
    close(ends[1]);
    REQUIRE(length > 0);
    path[length] = '\0';
}

TEST(a_folder_is_private_and_goes_with_its_files) {
    lab_temporary_folder folder;
    struct stat status;
    make_place();
    REQUIRE(lab_temporary_folder_make(&folder, "whet-run", NULL));
    CHECK(strncmp(folder.path, place, strlen(place)) == 0);
    REQUIRE(stat(folder.path, &status) == 0);
    CHECK((status.st_mode & 0777) == 0700);
    put_file(folder.path, "a");
    put_file(folder.path, "b");
    lab_temporary_folder_remove(&folder);
    CHECK(!folder.path);
    lab_temporary_folder_remove(&folder);
    CHECK_INT(rmdir(place), 0);
    remove_place();
}

TEST(what_a_killed_run_left_is_removed_by_the_next) {
    lab_temporary_folder folder;
    char left[128];
    make_place();
    leave_one(left, sizeof left);
    CHECK(lab_file_exists(left));
    REQUIRE(lab_temporary_folder_make(&folder, "whet-run", NULL));
    CHECK(!lab_file_exists(left));
    lab_temporary_folder_remove(&folder);
    CHECK_INT(rmdir(place), 0);
    remove_place();
}

TEST(folders_in_use_of_another_name_or_readable_by_others_stay) {
    lab_temporary_folder first, second, other;
    char left[128], link[128];
    make_place();
    leave_one(left, sizeof left);
    REQUIRE(chmod(left, 0755) == 0);
    char *theirs = lab_path(place, "whet-run.theirs2"), *outside = lab_path(place, "outside");
    REQUIRE(theirs && outside);
    CHECK(theirs && mkdir(theirs, 0700) == 0);
    CHECK(outside && mkdir(outside, 0700) == 0);
    put_file(theirs, "kept");
    put_file(outside, "kept");
    snprintf(link, sizeof link, "%s/whet-run.linked", place);
    REQUIRE(symlink(outside, link) == 0);
    REQUIRE(lab_temporary_folder_make(&other, "whet-other", NULL));
    REQUIRE(lab_temporary_folder_make(&first, "whet-run", NULL));
    REQUIRE(lab_temporary_folder_make(&second, "whet-run", NULL));
    CHECK(lab_file_exists(first.path) && lab_file_exists(second.path));
    CHECK(lab_file_exists(other.path));
    CHECK(lab_file_exists(left));
    char *kept = lab_path(theirs, "kept"), *linked = lab_path(outside, "kept");
    CHECK(kept && lab_file_exists(kept));
    CHECK(linked && lab_file_exists(linked));
    lab_temporary_folder_remove(&first);
    lab_temporary_folder_remove(&second);
    lab_temporary_folder_remove(&other);
    free(theirs);
    free(outside);
    free(kept);
    free(linked);
    remove_place();
}

TEST(a_place_that_cannot_be_written_to_is_named) {
    lab_temporary_folder folder;
    lab_error error = {.kind = LAB_NO_ERROR};
    REQUIRE(setenv("TMPDIR", "/nowhere/at/all", 1) == 0);
    CHECK(!lab_temporary_folder_make(&folder, "whet-run", &error));
    CHECK(!folder.path);
    CHECK_MSG(strncmp(error.text, "/nowhere/at/all/whet-run.", 25) == 0, "%s", error.text);
    CHECK_MSG(strstr(error.text, ": cannot create folder: ") != NULL, "%s", error.text);
    unsetenv("TMPDIR");
}

TEST(runs_that_start_together_all_get_a_folder) {
    enum { RUNS = 16, TURNS = 50 };
    pid_t children[RUNS];
    make_place();
    for (int i = 0; i < RUNS; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            for (int turn = 0; turn < TURNS; turn++) {
                lab_temporary_folder folder;
                if (!lab_temporary_folder_make(&folder, "whet-run", NULL))
                    _exit(1);
                put_file(folder.path, "rows.csv");
                char *path = lab_path(folder.path, "rows.csv");
                if (!path || !lab_file_exists(path))
                    _exit(2);
                free(path);
                lab_temporary_folder_remove(&folder);
            }
            _exit(0);
        }
    }
    for (int i = 0; i < RUNS; i++) {
        int status;
        REQUIRE(waitpid(children[i], &status, 0) == children[i]);
        CHECK_INT(status, 0);
    }
    CHECK_INT(rmdir(place), 0);
    remove_place();
}
