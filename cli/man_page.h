/* The manual page, made from a text of its own and the tables of options of all commands. */
#ifndef WHET_CLI_MAN_PAGE_H
#define WHET_CLI_MAN_PAGE_H

#include <stdbool.h>
#include <stdio.h>

/* In mdoc. False after a message where the text names a command that does not exist. */
bool print_man_page(FILE *file);

#endif
