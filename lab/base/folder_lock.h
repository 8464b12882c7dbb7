/*
 * One run at a time in a folder. The folder itself is locked (flock), so
 * nothing is left behind however a run ends.
 */
#ifndef WHET_LAB_FOLDER_LOCK_H
#define WHET_LAB_FOLDER_LOCK_H

#include "base/error.h"

typedef struct lab_folder_lock {
    int descriptor; /* -1: none */
} lab_folder_lock;

static inline lab_folder_lock lab_folder_unlocked(void) { return (lab_folder_lock){-1}; }

/* Takes the lock, unless it is held already, and removes what a killed run left half written. False
 * and an error if another run has the folder. A file system without locks is accepted. */
bool lab_folder_take(lab_folder_lock *lock, const char *folder, lab_error *error);

/* Removes what killed runs left half written in a folder that nobody else writes to now. */
void lab_folder_sweep(const char *folder);
void lab_folder_release(lab_folder_lock *lock);

#endif
