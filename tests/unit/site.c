/* SPDX-License-Identifier: ISC */
#include "tests/unit/site.h"
#include "engine/feed/feed.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "config/compile/compile.h"
#include "segment/file/internal.h"
#include "segment/session/sessions.h"

const char *site_providers;
const char *site_policy_settings = "", *site_lease_settings = "";
const char *site_accounts = "64";
const char *site_overrides;

static void fail(const char *what, const char *text) {
	fprintf(stderr, "site: %s: %s\n", what, text);
	abort();
}

#define FEW_DESTINATIONS 256

static struct generation *compile(const struct site *site, uint64_t sessions,
    const char *classes) {
	size_t size = strlen(classes) + 1024;
	char *text = malloc(size);
	struct config_messages messages = { 0 };
	struct generation *generation;

	snprintf(text, size, "version = 1;\n"
	    "state = { path = \"%s/state\"; sessions = \"%llu\"; "
	    "destinations = \"%llu\"; classes = \"64\"; accounts = \"%s\"; };\n"
	    "journal = { path = \"%s/journal\"; };\n"
	    "listen = { policy = ( { address = \"unix:%s/p\"; %s },\n"
	    "  { address = \"unix:%s/l\"; session_proof = \"lease\"; %s } );\n"
	    "  milter = [ \"unix:%s/m\" ]; socketmap = [ \"unix:%s/s\" ];\n"
	    "  control = \"unix:%s/c\"; };\n%s",
	    site->directory, (unsigned long long)sessions,
	    (unsigned long long)site->destinations, site_accounts, site->directory, site->directory,
	    site_policy_settings, site->directory, site_lease_settings, site->directory,
	    site->directory, site->directory, classes);
	generation = site_overrides == NULL ?
	    config_compile_texts(text, "test", site_providers, "providers.test", &messages) :
	    config_compile_accounts(text, "test", site_overrides, strlen(site_overrides), &messages);
#ifndef WITH_CLUSTER
	if (generation == NULL && strstr(classes, "cluster = {") != NULL) {
		(void)rmdir(site->directory);
		puts("skipped: this build has no cluster");
		exit(77);
	}
#endif
	if (generation == NULL)
		fail("configuration", messages.count > 0 ?
		    messages.list[0].text : "the server answered with an error: it is loading "
		    "its data, is a replica, is out of memory ...");
	config_messages_free(&messages);
	free(text);
	return generation;
}

static void find_listeners(struct site *site) {
	for (uint8_t i = 0; i < site->generation->listener_count; i++) {
		const struct generation_listener *listener =
		    &site->generation->listeners[i];

		if (listener->kind == LISTENER_MILTER)
			site->milter_listener = i;
		else if (listener->kind == LISTENER_SOCKETMAP)
			site->map_listener = i;
		else if (listener->kind == LISTENER_POLICY &&
		    listener->proof == PROOF_LEASE)
			site->lease_listener = i;
		else if (listener->kind == LISTENER_POLICY)
			site->auto_listener = i;
	}
}

static void begin(struct site *site, uint64_t sessions, const char *classes) {
	struct generation *generation = compile(site, sessions, classes);
	struct diag diag;

	site->sessions = sessions;
	if (segment_prepare(&site->segment, generation, getuid(), getgid(), getpid(), false,
		&site->report, &diag) != 0)
		fail("segment_prepare", diag.text);
	if (segment_publish(site->segment, generation, &diag) != 0)
		fail("segment_publish", diag.text);
	free(generation);
	site->place = segment_role_place(ROLE_POLICY, 0);
	segment_role_starting(site->segment, ROLE_POLICY, 0, clock_now_ns());
	if (engine_open(&site->engine, site->segment, site->place, &diag) != 0)
		fail("engine_open", diag.text);
	site->generation = engine_pin(site->engine);
	find_listeners(site);
}

void site_open(struct site *site, uint64_t sessions, const char *classes) {
	site_open_sized(site, sessions, FEW_DESTINATIONS, classes);
}

void site_enlarge_pages(const struct site *site) {
	uint64_t done = 0;

	while (segment_enlarge_pages(site->segment, &done))
		;
}

void site_open_sized(struct site *site, uint64_t sessions, uint64_t destinations,
    const char *classes) {
	memset(site, 0, sizeof(*site));
	site->destinations = destinations;
	snprintf(site->directory, sizeof(site->directory),
	    "/dev/shm/postern-test-XXXXXX");
	if (mkdtemp(site->directory) == NULL)
		fail("mkdtemp", site->directory);
	begin(site, sessions, classes);
}

void site_reload(struct site *site, const char *classes) {
	struct generation *generation = compile(site, site->sessions, classes);
	struct diag diag;

	if (segment_publish(site->segment, generation, &diag) != 0)
		fail("segment_publish", diag.text);
	free(generation);
	engine_unpin(site->engine, site->generation);
	site->generation = engine_pin(site->engine);
}

static void forget(struct site *site) {
	engine_unpin(site->engine, site->generation);
	engine_feed_close(site->engine);
	engine_close(&site->engine);
	segment_unmap(&site->segment);
}

void site_restart(struct site *site, uint64_t sessions, const char *classes) {
	forget(site);
	begin(site, sessions, classes);
}

static int remove_one(const char *path, const struct stat *status, int what, struct FTW *at) {
	(void)status, (void)what, (void)at;
	(void)remove(path);
	return 0;
}

void site_close(struct site *site) {
	forget(site);
	(void)nftw(site->directory, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

struct question site_question(const char *client, uint16_t port,
    const char *name) {
	struct question question = { .client_port = port, .server_port = 25,
		.name = name, .name_length = name == NULL ? 0 : strlen(name),
		.owner = OWNER_POLICY };

	if (!address_parse(client, strlen(client), &question.client))
		fail("address", client);
	(void)address_parse("192.0.2.25", 10, &question.server);
	return question;
}

enum verdict site_inbound(struct site *site, const char *client, uint16_t port,
    const char *name, struct session_ref *ref) {
	struct question question = site_question(client, port, name);
	struct answer answer;

	engine_session_open(site->engine, site->generation, &question,
	    clock_now_ns(), &answer);
	if (ref != NULL)
		*ref = answer.session;
	return answer.decision.verdict;
}

struct class_record *site_class(const struct site *site, const char *name) {
	for (uint32_t i = 0; i < site->segment->header->record_count; i++) {
		if (strcmp(site->segment->records[i].name, name) == 0)
			return &site->segment->records[i];
	}
	fail("unknown class", name);
	return NULL;
}

static bool clients_are_consistent(const struct segment *segment) {
	struct learned clients = clients_table(segment);
	uint64_t counted = 0, in_slots = 0;
	struct learned_cursor at = { .torn = 0 };
	uint64_t copy[LEARNED_WORDS_MAX];
	uint32_t first, count;

	while (learned_each(&clients, &at, copy))
		counted += (uint32_t)copy[WORD_OF(client_slot, open)];
	for (uint32_t i = 0; i < segment->header->shard_count; i++) {
		sessions_range(segment, i, &first, &count);
		for (uint32_t s = 0; s < count; s++) {
			struct session_control control =
			    session_load_control(segment, first + s);

			in_slots += control.state == SESSION_OPEN &&
			    control.client_bits != 255;
		}
	}
	if (counted != in_slots)
		fprintf(stderr, "clients count %llu sessions, slots %llu\n",
		    (unsigned long long)counted, (unsigned long long)in_slots);
	return counted == in_slots;
}

bool site_is_consistent(const struct site *site) {
	const struct segment *segment = site->segment;
	uint32_t first, count;

	for (uint32_t r = 0; r < segment->header->record_count; r++) {
		uint32_t open = 0, inbound = 0;

		if (atomic_load(&segment->records[r].in_use) == 0)
			continue;
		for (uint32_t i = 0; i < segment->header->shard_count; i++) {
			sessions_range(segment, i, &first, &count);
			for (uint32_t s = 0; s < count; s++) {
				struct session_control control =
				    session_load_control(segment, first + s);

				if (control.state != SESSION_OPEN ||
				    control.class_record != r)
					continue;
				open++;
				inbound += control.direction == SESSION_INBOUND;
			}
		}
		if (open != atomic_load(&segment->records[r].open) ||
		    inbound != atomic_load(&segment->records[r].open_inbound)) {
			fprintf(stderr, "class %s counts %u (%u inbound), "
			    "slots %u (%u)\n", segment->records[r].name,
			    atomic_load(&segment->records[r].open),
			    atomic_load(&segment->records[r].open_inbound),
			    open, inbound);
			return false;
		}
	}
	return clients_are_consistent(segment);
}
