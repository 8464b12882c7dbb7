/* Nouns that tasks speak of. Examples depend on their order: adding one changes what is drawn. */
#ifndef WHET_LAB_TUNE_NOUNS_H
#define WHET_LAB_TUNE_NOUNS_H

enum { TUNE_NOUNS = 228 };

extern const char *const tune_nouns[TUNE_NOUNS];

#endif
