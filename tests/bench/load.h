/* SPDX-License-Identifier: ISC */
/*
 * The common part of the load generators: connections to one server, each with
 * one question outstanding, as an smtpd process has; latencies; a summary of
 * one `name value` a line: rate (a second), p50_us, p99_us, loader_us (our own
 * CPU time a unit), answer WORD COUNT.  One thread.  Exit code 1: a reply that
 * no server may give, or a server that is not there.
 */
#ifndef BENCH_LOAD_H
#define BENCH_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOAD_BUFFER 4096

struct load_connection {
	int fd;
	unsigned step;			/* the protocol's own */
	uint64_t serial;		/* number of the unit, from 0 */
	int64_t sent_ns;
	bool hung_up;			/* by the server: an answer, where each unit has a connection */
	size_t in_length, out_length;
	uint8_t in[LOAD_BUFFER], out[LOAD_BUFFER];
};

enum load_result {
	LOAD_MORE,		/* no whole reply yet */
	LOAD_STEP,		/* out holds the unit's next bytes */
	LOAD_DONE,		/* the unit is over; what out holds is still sent */
	LOAD_BAD,
};

struct load_protocol {
	const char *name;
	bool connection_each;	/* each unit has a connection of its own */
	/* Fills out with the first bytes of unit `serial`. */
	void (*begin)(struct load_connection *connection);
	/* Looks at in; *used bytes of it are done with. *answer names the answer
	 * that is timed, or stays NULL. */
	enum load_result (*input)(struct load_connection *connection, size_t *used,
	    const char **answer);
};

/* Adds to out; a unit's bytes always fit. */
void load_put(struct load_connection *connection, const void *data, size_t length);

/* The client of a unit: a host of 16.0.0.0/4, out of those asked for, and a port. */
uint32_t load_client(uint64_t serial);
uint16_t load_port(uint64_t serial);
/* How many were asked for (-K). */
uint32_t load_clients(void);

int load_main(int argc, char **argv, const struct load_protocol *protocol);

#endif
