/* The verbs of `whet lm`; argv[0] is the verb. */
#ifndef WHET_CLI_LM_H
#define WHET_CLI_LM_H

int lm_train_command(int argc, char **argv);
int lm_eval_command(int argc, char **argv);
int lm_generate_command(int argc, char **argv);
int lm_import_command(int argc, char **argv);
int lm_export_command(int argc, char **argv);

#endif
