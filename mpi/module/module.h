/* What the files of the program's module share. */
#ifndef WHET_MPI_MODULE_H
#define WHET_MPI_MODULE_H

#include "base/ranks_decode.h"
#include "communicator.h"

/* Of all ranks of the job. */
const communicator *whet_module_communicator(void);

extern const lab_ranks_decode whet_module_decode;

#endif
