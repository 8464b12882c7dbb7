/* What the verbs of `whet lm` share. argv[0] is the verb. */
#ifndef WHET_CLI_LM_H
#define WHET_CLI_LM_H

#include "commands.h"
#include "lab_options.h"
#include "options.h"

int lm_generate_command(int argc, char **argv);
int lm_import_command(int argc, char **argv);
int lm_export_command(int argc, char **argv);

#endif
