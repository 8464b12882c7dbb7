/* Names that the library and the laboratory know, as lists ended by NULL, for option tables. */
#ifndef WHET_CLI_REGISTRY_WORDS_H
#define WHET_CLI_REGISTRY_WORDS_H

/* A working example of each policy: adaptive, fixed:2 ... */
const char *const *policy_words(void);

/* Algorithms of CLRS-Text. */
const char *const *algorithm_words(void);

/* Synthetic tasks of the league. */
const char *const *task_words(void);

/* Parts of the report, and those of them that are figures: the paper's by number, others by name.
 */
const char *const *part_words(void);
const char *const *figure_words(void);

/* Instruction sets that the library may be built with. */
extern const char *const isa_words[];

#endif
