/* SPDX-License-Identifier: ISC */
/* PURPOSE  postern-simulate(1): laws and schedulers in virtual time. */
#include "lab/lab.h"

int main(int argc, char **argv) {
	return lab_main(argc, argv);
}
