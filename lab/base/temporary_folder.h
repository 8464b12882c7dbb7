/*
 * A folder for files that last no longer than the run. It stays locked (flock) as long as the run
 * lives, so that the next run can tell and remove those of runs that were killed.
 */
#ifndef WHET_LAB_TEMPORARY_FOLDER_H
#define WHET_LAB_TEMPORARY_FOLDER_H

#include "base/folder_lock.h"

typedef struct lab_temporary_folder {
    char *path; /* NULL: none */
    lab_folder_lock lock;
} lab_temporary_folder;

/*
 * Creates an empty folder that nobody else can read, TMPDIR/NAME.XXXXXX (or below /tmp). Before
 * that, folders of this name and user that nobody has locked are removed with their files; where
 * the file system has no locks, they stay. False and an error if it cannot be created.
 */
bool lab_temporary_folder_make(lab_temporary_folder *folder, const char *name, lab_error *error);

/* Removes the folder and all files in it, if there is one. */
void lab_temporary_folder_remove(lab_temporary_folder *folder);

#endif
