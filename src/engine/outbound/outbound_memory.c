/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What one delivering process was admitted to.
 * MODEL    Its slots in the table, and the hosts that are counted in each: a slot
 *          that no host needs is given back.  Its places in windows stay its own
 *          until it ends.
 * ERRORS   No memory for a slot is told before one is taken.
 * THREADS  One for each process.
 * BUGS     A host that was pushed out by OUTBOUND_HOSTS_MAX others is asked about
 *          again, and the slot of its class is kept until the process ends.
 */
#include "engine/outbound/outbound_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/process.h"
#include "engine/destination/windows.h"

#define HOLDS_FIRST	4

struct outbound_process *outbound_process_open(struct engine *engine,
    const struct process_identity *identity) {
	struct outbound_process *process = calloc(1, sizeof(*process));

	if (process == NULL)
		return NULL;
	process->engine = engine;
	process->identity = *identity;
	process->places = windows_places_open(engine, identity);
	return process;
}

static struct hold *find_hold(struct outbound_process *process,
    uint16_t record) {
	for (size_t i = 0; i < process->hold_count; i++) {
		if (process->holds[i].record == record)
			return &process->holds[i];
	}
	return NULL;
}

bool outbound_reserve_hold(struct outbound_process *process) {
	size_t size = process->hold_size == 0 ? HOLDS_FIRST
					      : 2 * process->hold_size;
	struct hold *larger;

	if (process->hold_count < process->hold_size)
		return true;
	larger = realloc(process->holds, size * sizeof(*larger));
	if (larger == NULL)
		return false;
	process->holds = larger;
	process->hold_size = size;
	return true;
}

void outbound_note_hold(struct outbound_process *process, uint16_t record,
    const struct session_ref *ref, bool taken) {
	struct hold *hold = find_hold(process, record);

	if (hold == NULL) {
		hold = &process->holds[process->hold_count++];
		*hold = (struct hold){ .record = record,
			.for_forgotten = !taken };
	}
	hold->ref = *ref;
}

bool outbound_holds(struct outbound_process *process, uint16_t record,
    const struct session_ref *ref) {
	const struct hold *hold = find_hold(process, record);

	return hold != NULL && hold->ref.slot == ref->slot &&
	    hold->ref.serial == ref->serial;
}

/* Gives a slot back unless another host is counted there. */
static void leave_class(struct outbound_process *process,
    const struct generation *generation, uint16_t record, int64_t now_ns) {
	struct hold *hold = find_hold(process, record);

	if (hold == NULL || hold->for_forgotten)
		return;
	for (size_t i = 0; i < process->host_count; i++) {
		if (process->hosts[i].record == record)
			return;
	}
	engine_session_ended(process->engine, generation, &hold->ref,
	    OWNER_POLICY, now_ns);
	*hold = process->holds[--process->hold_count];
}

struct admitted_host *outbound_host(struct outbound_process *process,
    uint64_t name_hash) {
	for (size_t i = 0; i < process->host_count; i++) {
		if (process->hosts[i].name_hash == name_hash)
			return &process->hosts[i];
	}
	return NULL;
}

static struct admitted_host *make_host(struct outbound_process *process) {
	struct admitted_host *host;
	struct hold *hold;

	if (process->host_count < OUTBOUND_HOSTS_MAX)
		return &process->hosts[process->host_count++];
	host = &process->hosts[process->oldest];
	process->oldest = (process->oldest + 1) % OUTBOUND_HOSTS_MAX;
	hold = find_hold(process, host->record);
	if (hold != NULL)
		hold->for_forgotten = true;
	return host;
}

void outbound_put_host(struct outbound_process *process,
    const struct generation *generation, const struct admitted_host *put,
    int64_t now_ns) {
	struct admitted_host *host = outbound_host(process, put->name_hash);
	uint16_t before = host == NULL ? SEGMENT_NO_CLASS : host->record;

	if (host == NULL)
		host = make_host(process);
	*host = *put;
	if (before != put->record)
		leave_class(process, generation, before, now_ns);
}

void outbound_drop_host(struct outbound_process *process,
    const struct generation *generation, uint64_t name_hash, int64_t now_ns) {
	struct admitted_host *host = outbound_host(process, name_hash);
	uint16_t record;

	if (host == NULL)
		return;
	record = host->record;
	*host = process->hosts[--process->host_count];
	leave_class(process, generation, record, now_ns);
}

void outbound_keep_one_host(struct outbound_process *process,
    const struct generation *generation, uint64_t name_hash, int64_t now_ns) {
	for (size_t i = process->host_count; i-- > 0;) {
		if (process->hosts[i].name_hash != name_hash)
			outbound_drop_host(process, generation,
			    process->hosts[i].name_hash, now_ns);
	}
}

struct process_identity outbound_slot_process(const struct session *session) {
	struct process_identity identity;

	memcpy(&identity.pid, session->proof_address.bytes,
	    sizeof(identity.pid));
	memcpy(&identity.start_ticks,
	    session->proof_address.bytes + sizeof(identity.pid),
	    sizeof(identity.start_ticks));
	return identity;
}

void outbound_process_leave(struct outbound_process *process,
    const struct generation *generation, int64_t now_ns) {
	for (size_t i = 0; i < process->hold_count; i++)
		engine_session_ended(process->engine, generation,
		    &process->holds[i].ref, OWNER_POLICY, now_ns);
	process->hold_count = 0;
	process->host_count = 0;
}

bool outbound_process_is_over(const struct outbound_process *process) {
	return process_is_over(process->identity.pid,
	    process->identity.start_ticks);
}

void outbound_process_close(struct outbound_process **process,
    const struct generation *generation, int64_t now_ns) {
	struct outbound_process *ended = *process;

	if (ended == NULL)
		return;
	outbound_process_leave(ended, generation, now_ns);
	windows_places_close(&ended->places, outbound_process_is_over(ended),
	    now_ns);
	free(ended->holds);
	free(ended);
	*process = NULL;
}
