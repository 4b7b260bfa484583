/* SPDX-License-Identifier: ISC */
/*
 * Reading a generation's block.  Nothing here allocates, locks or changes
 * anything: any thread, any process that has it mapped.
 */
#include "config/generation/generation.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "base/file_stamp.h"
#include "base/sd_log.h"
#include "config/generation/window_settings.h"

/* Raise it when the meaning of a field, or the form of the class index,
 * changes while the sizes do not. */
#define GENERATION_VERSION 6

static uint64_t mix(uint64_t hash, uint64_t value) {
	for (int i = 0; i < 8; i++, value >>= 8)
		hash = (hash ^ (value & 0xff)) * UINT64_C(0x100000001b3);
	return hash;
}

static uint64_t mix_name(uint64_t hash, const char *name) {
	for (; *name != '\0'; name++)
		hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
	return hash;
}

#define LISTENER_FIELDS(X, s) \
	X(s, kind) X(s, proof) X(s, mode) X(s, address) X(s, owner) X(s, group) X(s, read_group) X(s, write_group) X(s, line)
#define CLASS_FIELDS(X, s) \
	X(s, name) X(s, text) X(s, file) X(s, line) X(s, record) X(s, action) X(s, observe) \
	X(s, client_observe) X(s, outbound_observe) X(s, client_bits_v4) X(s, client_bits_v6) \
	X(s, has_client_limit) X(s, any_port) X(s, ports) X(s, port_count) X(s, record_use) \
	X(s, retry_s) X(s, bulk) X(s, shared) X(s, wants_shared) X(s, has_quotas) \
	X(s, fixed_base) X(s, fixed_extra) X(s, limits) X(s, places)
#define LIMITS_FIELDS(X, s) \
	X(s, sessions) X(s, inbound) X(s, client_sessions) X(s, rate) X(s, client_rate)
#define RATE_FIELDS(X, s) \
	X(s, period_ns) X(s, count) X(s, burst)
#define MTA_FIELDS(X, s) \
	X(s, name) X(s, transport) X(s, parent) X(s, line) X(s, kind) X(s, site_known) X(s, site_only_listed) X(s, uid_known) \
	X(s, uid) X(s, log) X(s, log_from_begin) X(s, log_uids) X(s, log_uid_count) X(s, syslog_name) X(s, config_directory) \
	X(s, command_directory) X(s, may_reload) X(s, clone) \
	X(s, clone_program) X(s, site) X(s, site_refusal) X(s, site_excluded_index) \
	X(s, site_excluded_count) X(s, site_reasons) X(s, site_listed_index) \
	X(s, relayhost) X(s, lanes) X(s, lane_count) X(s, cache_from) X(s, site_lanes) X(s, site_cohorts) X(s, site_backoff_s) X(s, site_origin) \
	X(s, site_route_index) X(s, site_route_count) X(s, site_routes) X(s, site_route_names) X(s, reserved) X(s, site_watches) X(s, site_watch_count) X(s, site_changed) \
	X(s, window) X(s, drive) X(s, processes) X(s, local_processes) X(s, cf) X(s, sendmail) X(s, user) \
	X(s, queue_count) X(s, queues) X(s, local_queues) X(s, port_count) X(s, ports) X(s, site_by_setup) X(s, probes) X(s, probes_total) X(s, site_probes) X(s, retry_ns) \
	X(s, retry_most_ns) X(s, stall_ns) X(s, run_limit_ns) X(s, exactly_once) X(s, queue_reserved) X(s, transports)
#define SCHEDULE_FIELDS(X, s) \
	X(s, discipline) X(s, delivery_slot_cost) X(s, minimum_delivery_slots) \
	X(s, delivery_slot_discount) X(s, delivery_slot_loan) X(s, message_active_limit) \
	X(s, message_recipient_limit) X(s, message_recipient_minimum) X(s, recipient_limit) \
	X(s, extra_recipient_limit) X(s, recipient_refill_limit) \
	X(s, destination_recipient_limit) X(s, backlog) X(s, max_message_concurrency) \
	X(s, scale_max_concurrency) X(s, reserved) X(s, recipient_refill_delay_ns)
#define WINDOW_FIELDS(X, s) \
	X(s, given) X(s, file) X(s, line) X(s, debug) X(s, reserved) X(s, settings)
#define DESTINATIONS_FIELDS(X, s) \
	X(s, file) X(s, line) X(s, window)
#define PROVIDER_FIELDS(X, s) \
	X(s, name) X(s, file) X(s, line) X(s, window) X(s, rules) X(s, rule_count) \
	X(s, ceiling)
#define REPLY_RULE_FIELDS(X, s) \
	X(s, provider) X(s, name) X(s, pattern) X(s, note) X(s, file) X(s, line) \
	X(s, has_class) X(s, class) X(s, action) X(s, reserved) X(s, ceiling) X(s, count) \
	X(s, reserved2) X(s, period_ns) X(s, for_ns) X(s, identity)
#define RULE_FIELDS(X, s) \
	X(s, class_index) X(s, file) X(s, line) X(s, text)
#define GENERATION_FIELDS(X, s) \
	X(s, magic) X(s, layout) X(s, bytes) X(s, number) X(s, loaded_wall_s) X(s, file) \
	X(s, class_count) X(s, classes) X(s, rule_count) X(s, rules) X(s, listener_count) \
	X(s, listeners) X(s, port_count) X(s, ports) X(s, port_index) X(s, other_index) \
	X(s, outbound_index) X(s, exempt_index) X(s, observe) X(s, outbound_observe) \
	X(s, requeue_rate) X(s, schedule) \
	X(s, fail_closed) X(s, adopt) X(s, log_facility) X(s, back_pressure) X(s, sandbox) \
	X(s, reserved) \
	X(s, lease_owner_ns) \
	X(s, lease_orphan_ns) X(s, policy_processes) X(s, policy_connections) \
	X(s, witness_port_count) X(s, witness_ports) X(s, netns_count) X(s, netns) \
	X(s, mta_count) X(s, reserved2) X(s, confined) X(s, mtas) X(s, remote_port_count) X(s, remote_ports) \
	X(s, gate_word_count) X(s, gate_words) X(s, gate_exempt4) X(s, gate_exempt6) \
	X(s, alert) \
	X(s, window) X(s, destinations_count) X(s, destinations) X(s, destinations_index) \
	X(s, destinations_mask_count) X(s, destinations_masks) X(s, destinations_names) \
	X(s, providers_file) \
	X(s, provider_count) X(s, providers) X(s, provider_index) X(s, provider_mask_count) \
	X(s, provider_masks) X(s, reply_rule_count) X(s, reply_rules) X(s, common_rules) \
	X(s, state_path) X(s, user) X(s, group) X(s, hints_group) X(s, record_count) X(s, session_count) \
	X(s, destination_count) X(s, journal) X(s, cluster) X(s, account_count) X(s, accounts) \
	X(s, history_bytes)
#define ALERT_FIELDS(X, s) \
	X(s, rate) X(s, interval_ns) X(s, timeout_ns) X(s, word_count) X(s, words) X(s, on) \
	X(s, processes) X(s, reserved)
#define JOURNAL_FIELDS(X, s) \
	X(s, path) X(s, reserved) X(s, file_size) X(s, sync_delay_ns) X(s, envelope_delay_ns) \
	X(s, decisions_size)
#define CLUSTER_FIELDS(X, s) \
	X(s, redis) X(s, user) X(s, password_file) X(s, node) X(s, prefix) X(s, nodes) \
	X(s, fraction) X(s, without) X(s, line) X(s, reserved) X(s, lease_ns)

#define ACCOUNTS_FIELDS(X, s) \
	X(s, count) X(s, class_entries) X(s, accounts) X(s, pattern_count) X(s, patterns) X(s, overrides_file) \
	X(s, override_count) X(s, override_places) X(s, overrides) X(s, set_count) X(s, sets)
#define ACCOUNT_FIELDS(X, s) \
	X(s, name) X(s, text) X(s, file) X(s, line) X(s, action) X(s, observe) \
	X(s, health_action) X(s, reserved) X(s, health) X(s, health_line) X(s, networks_line) \
	X(s, new_for_s) X(s, each) X(s, all) X(s, fresh) X(s, per_message) \
	X(s, per_message_line) X(s, free) X(s, free_count)

#define MIX_FIELD(s, field) \
	hash = mix_name(hash, #field); \
	hash = mix(hash, offsetof(struct s, field)); \
	hash = mix(hash, sizeof(((struct s *)0)->field));
#define SUM_FIELD(s, field) + sizeof(((struct s *)0)->field)

/* A field that is missing above leaves a hole here. */
_Static_assert(sizeof(struct generation_listener) ==
    0 LISTENER_FIELDS(SUM_FIELD, generation_listener), "every field is named");
_Static_assert(sizeof(struct generation_class) ==
    0 CLASS_FIELDS(SUM_FIELD, generation_class), "every field is named");
_Static_assert(sizeof(struct generation_mta) ==
    0 MTA_FIELDS(SUM_FIELD, generation_mta), "every field is named");
_Static_assert(sizeof(struct generation_alert) ==
    0 ALERT_FIELDS(SUM_FIELD, generation_alert), "every field is named");
_Static_assert(sizeof(struct generation_journal) ==
    0 JOURNAL_FIELDS(SUM_FIELD, generation_journal), "every field is named");
_Static_assert(sizeof(struct generation_cluster) ==
    0 CLUSTER_FIELDS(SUM_FIELD, generation_cluster), "every field is named");
_Static_assert(sizeof(struct generation_accounts) ==
    0 ACCOUNTS_FIELDS(SUM_FIELD, generation_accounts), "every field is named");
_Static_assert(sizeof(struct generation_account) ==
    0 ACCOUNT_FIELDS(SUM_FIELD, generation_account), "every field is named");
_Static_assert(sizeof(struct generation_schedule) ==
    0 SCHEDULE_FIELDS(SUM_FIELD, generation_schedule), "every field is named");
_Static_assert(sizeof(struct generation_window) ==
    0 WINDOW_FIELDS(SUM_FIELD, generation_window), "every field is named");
_Static_assert(sizeof(struct generation_destinations) ==
    0 DESTINATIONS_FIELDS(SUM_FIELD, generation_destinations), "every field is named");
_Static_assert(sizeof(struct generation_provider) ==
    0 PROVIDER_FIELDS(SUM_FIELD, generation_provider), "every field is named");
_Static_assert(sizeof(struct generation_reply_rule) ==
    0 REPLY_RULE_FIELDS(SUM_FIELD, generation_reply_rule), "every field is named");
_Static_assert(sizeof(struct generation_rule) ==
    0 RULE_FIELDS(SUM_FIELD, generation_rule), "every field is named");
_Static_assert(sizeof(struct generation) - (0 GENERATION_FIELDS(SUM_FIELD, generation)) < 16,
    "every field is named, but for padding");

uint64_t generation_layout(void) {
	uint64_t hash = mix(UINT64_C(0xcbf29ce484222325), GENERATION_VERSION);

	LISTENER_FIELDS(MIX_FIELD, generation_listener)
	CLASS_FIELDS(MIX_FIELD, generation_class)
	LIMITS_FIELDS(MIX_FIELD, limits)
	RATE_FIELDS(MIX_FIELD, rate_limit)
	RULE_FIELDS(MIX_FIELD, generation_rule)
	MTA_FIELDS(MIX_FIELD, generation_mta)
	SCHEDULE_FIELDS(MIX_FIELD, generation_schedule)
	ALERT_FIELDS(MIX_FIELD, generation_alert)
	JOURNAL_FIELDS(MIX_FIELD, generation_journal)
	CLUSTER_FIELDS(MIX_FIELD, generation_cluster)
	ACCOUNTS_FIELDS(MIX_FIELD, generation_accounts)
	ACCOUNT_FIELDS(MIX_FIELD, generation_account)
	hash = mix(hash, sizeof(struct generation_quota));
	hash = mix(hash, sizeof(struct generation_login_pattern));
	hash = mix(hash, sizeof(struct generation_override));
	hash = mix(hash, sizeof(struct generation_override_set));
	WINDOW_FIELDS(MIX_FIELD, generation_window)
#define X(symbol, name, field, read) MIX_FIELD(window_settings, field)
	WINDOW_PARAMETERS(X)
#undef X
	DESTINATIONS_FIELDS(MIX_FIELD, generation_destinations)
	PROVIDER_FIELDS(MIX_FIELD, generation_provider)
	REPLY_RULE_FIELDS(MIX_FIELD, generation_reply_rule)
	GENERATION_FIELDS(MIX_FIELD, generation)
	hash = mix(hash, sizeof(struct address));
	return mix(hash, UINT64_C(0x0102030405060708));	/* byte order */
}

static bool array_fits(const struct generation *g, uint32_t offset, uint64_t count,
    size_t size, size_t alignment) {
	if (count == 0)
		return true;
	return offset >= sizeof(*g) && offset % alignment == 0 && offset < g->bytes &&
	    count <= (g->bytes - offset) / size;
}

/* A text ends inside, as the block ends with a NUL. */
static bool text_fits(const struct generation *g, uint32_t offset) {
	return offset == 0 || (offset >= sizeof(*g) && offset < g->bytes);
}

static bool index_fits(const struct generation *g, uint32_t offset) {
	return offset == 0 || (array_fits(g, offset, 1, 8, 8) &&
	    class_index_is_sound((const char *)g + offset, (size_t)(g->bytes - offset)));
}

static bool cluster_fits(const struct generation *g) {
	const struct generation_cluster *cluster = &g->cluster;

	return text_fits(g, cluster->redis) && text_fits(g, cluster->user) &&
	    text_fits(g, cluster->password_file) && text_fits(g, cluster->node) &&
	    text_fits(g, cluster->prefix);
}

static bool header_fits(const struct generation *g) {
	bool good = text_fits(g, g->file) && text_fits(g, g->window.file) &&
	    window_settings_are_sound(&g->window.settings) &&
	    text_fits(g, g->state_path) && text_fits(g, g->journal.path) &&
	    text_fits(g, g->user) && text_fits(g, g->group) && cluster_fits(g) &&
	    g->listener_count <= GENERATION_LISTENERS_MAX &&
	    g->port_count <= GENERATION_PORTS_MAX &&
	    g->witness_port_count <= GENERATION_PORTS_MAX &&
	    g->netns_count <= sizeof(g->netns) / sizeof(g->netns[0]) &&
	    index_fits(g, g->other_index) && index_fits(g, g->outbound_index) &&
	    index_fits(g, g->exempt_index);

	for (uint32_t i = 0; good && i < g->listener_count; i++)
		good = text_fits(g, g->listeners[i].address) &&
		    text_fits(g, g->listeners[i].owner) && text_fits(g, g->listeners[i].group);
	for (uint32_t i = 0; good && i < g->port_count; i++)
		good = index_fits(g, g->port_index[i]);
	for (uint32_t i = 0; good && i < g->netns_count; i++)
		good = text_fits(g, g->netns[i]);
	good = good && g->gate_word_count < sizeof(g->gate_words) / sizeof(g->gate_words[0]) &&
	    text_fits(g, g->gate_exempt4) && text_fits(g, g->gate_exempt6);
	for (uint32_t i = 0; good && i < g->gate_word_count; i++)
		good = text_fits(g, g->gate_words[i]);
	good = good && g->alert.word_count < GENERATION_COMMAND_WORDS;
	for (uint32_t i = 0; good && i < g->alert.word_count; i++)
		good = text_fits(g, g->alert.words[i]);
	return good;
}

static bool classes_fit(const struct generation *g) {
	if (!array_fits(g, g->classes, g->class_count, sizeof(struct generation_class), 8) ||
	    !array_fits(g, g->rules, g->rule_count, sizeof(struct generation_rule), 4))
		return false;
	for (uint32_t i = 0; i < g->class_count; i++) {
		const struct generation_class *class = generation_class(g, i);

		if (!text_fits(g, class->name) || !text_fits(g, class->text) ||
		    !text_fits(g, class->file) ||
		    !array_fits(g, class->ports, class->port_count, sizeof(uint16_t), 2))
			return false;
	}
	for (uint32_t i = 0; i < g->rule_count; i++) {
		const struct generation_rule *rule = generation_rule(g, i);

		if (rule->class_index >= g->class_count || !text_fits(g, rule->file) ||
		    !text_fits(g, rule->text))
			return false;
	}
	return true;
}

static bool window_fits(const struct generation *g, uint32_t offset) {
	const struct generation_window *window;

	if (offset == 0)
		return true;
	window = (const struct generation_window *)(const void *)((const char *)g + offset);
	return array_fits(g, offset, 1, sizeof(*window), 8) && text_fits(g, window->file) &&
	    generation_window_is_sound(g, offset);
}

/* The numbers of an array lie below `limit`. */
static bool numbers_fit(const struct generation *g, uint32_t offset, uint32_t count,
    uint32_t limit) {
	const uint32_t *numbers = (const uint32_t *)(const void *)((const char *)g + offset);

	if (!array_fits(g, offset, count, sizeof(*numbers), 4))
		return false;
	for (uint32_t i = 0; i < count; i++)
		if (numbers[i] >= limit)
			return false;
	return true;
}

static bool reply_rules_fit(const struct generation *g) {
	if (!array_fits(g, g->reply_rules, g->reply_rule_count,
	    sizeof(struct generation_reply_rule), 8) || g->common_rules > g->reply_rule_count)
		return false;
	for (uint32_t i = 0; i < g->reply_rule_count; i++) {
		const struct generation_reply_rule *rule = generation_reply_rule(g, i);

		if ((rule->provider != GENERATION_NO_PROVIDER &&
		    rule->provider >= g->provider_count) || !text_fits(g, rule->name) ||
		    !text_fits(g, rule->pattern) || !text_fits(g, rule->note) ||
		    !text_fits(g, rule->file) || rule->class >= RESULT_CLASS_COUNT)
			return false;
	}
	return true;
}

static bool providers_fit(const struct generation *g) {
	if (!text_fits(g, g->providers_file) || !index_fits(g, g->provider_index) ||
	    !array_fits(g, g->providers, g->provider_count,
	    sizeof(struct generation_provider), 4) ||
	    !numbers_fit(g, g->provider_masks, g->provider_mask_count, g->provider_count))
		return false;
	for (uint32_t i = 0; i < g->provider_count; i++) {
		const struct generation_provider *provider = generation_provider(g, i);

		if (!text_fits(g, provider->name) || !text_fits(g, provider->file) ||
		    !window_fits(g, provider->window) || provider->rules > g->reply_rule_count ||
		    provider->rule_count > g->reply_rule_count - provider->rules)
			return false;
	}
	return reply_rules_fit(g);
}

static bool texts_fit(const struct generation *g, uint32_t texts, uint32_t count) {
	const uint32_t *list = (const uint32_t *)(const void *)((const char *)g + texts);

	if (!array_fits(g, texts, count, sizeof(*list), 4))
		return false;
	for (uint32_t i = 0; i < count; i++)
		if (!text_fits(g, list[i]))
			return false;
	return true;
}

static bool windows_fit(const struct generation *g) {
	const struct generation_destinations *list;

	if (!index_fits(g, g->destinations_index) ||
	    !array_fits(g, g->destinations, g->destinations_count, sizeof(*list), 4) ||
	    !numbers_fit(g, g->destinations_masks, g->destinations_mask_count,
	    g->destinations_count) ||
	    !texts_fit(g, g->destinations_names, g->destinations_mask_count))
		return false;
	list = (const struct generation_destinations *)(const void *)
	    ((const char *)g + g->destinations);
	for (uint32_t i = 0; i < g->destinations_count; i++)
		if (!text_fits(g, list[i].file) || !window_fits(g, list[i].window))
			return false;
	return true;
}

static bool mta_queue_fits(const struct generation *g, const struct generation_mta *mta) {
	if (!text_fits(g, mta->cf) || !text_fits(g, mta->sendmail) || !text_fits(g, mta->user) ||
	    mta->queue_count > GENERATION_QUEUES_MAX)
		return false;
	for (uint32_t i = 0; i < mta->queue_count; i++)
		if (!text_fits(g, mta->queues[i]))
			return false;
	return true;
}

static bool mta_fits(const struct generation *g, const struct generation_mta *mta) {
	return text_fits(g, mta->name) && text_fits(g, mta->log) && text_fits(g, mta->transport) &&
	    (mta->transport == 0 || (mta->parent < g->mta_count &&
	    g->mtas[mta->parent].transport == 0)) &&
	    text_fits(g, mta->command_directory) &&
	    text_fits(g, mta->syslog_name) && text_fits(g, mta->config_directory) &&
	    text_fits(g, mta->clone) && text_fits(g, mta->clone_program) &&
	    text_fits(g, mta->site) && text_fits(g, mta->site_refusal) &&
	    text_fits(g, mta->relayhost) && window_fits(g, mta->window) &&
	    mta->port_count <= GENERATION_PORTS_MAX &&
	    mta->log_uid_count <= GENERATION_LOG_UIDS_MAX &&
	    index_fits(g, mta->site_excluded_index) && index_fits(g, mta->site_listed_index) &&
	    texts_fit(g, mta->site_reasons, mta->site_excluded_count) &&
	    mta->lane_count <= GENERATION_LANES_MAX && index_fits(g, mta->site_route_index) &&
	    texts_fit(g, mta->site_routes, mta->site_route_count) &&
	    (mta->site_route_names == 0 ||
	    texts_fit(g, mta->site_route_names, mta->site_route_count)) &&
	    texts_fit(g, mta->site_watches, mta->site_watch_count) &&
	    mta->site_changed <= mta->site_watch_count && mta_queue_fits(g, mta);
}

static bool mtas_fit(const struct generation *g) {
	if (g->mta_count > GENERATION_MTAS_MAX || g->remote_port_count > GENERATION_PORTS_MAX)
		return false;
	for (uint32_t i = 0; i < g->mta_count; i++)
		if (!mta_fits(g, &g->mtas[i]))
			return false;
	return true;
}

static bool accounts_fit(const struct generation *g) {
#ifdef WITH_ACCOUNTS
	return generation_accounts_fit(g);
#else
	return g->accounts.count == 0;
#endif
}

int generation_verify(const void *block, size_t bytes, struct diag *diag) {
	const struct generation *g = block;

	if (bytes < sizeof(*g))
		return diag_set(diag, 0, "the configuration block is only %zu bytes long", bytes);
	if (g->magic != GENERATION_MAGIC)
		return diag_set(diag, 0, "this is not a configuration block");
	if (g->layout != generation_layout())
		return diag_set(diag, 0, "another build wrote the configuration block");
	if (g->bytes != bytes)
		return diag_set(diag, 0, "the configuration block has %zu bytes instead of "
		    "%llu",
		    bytes, (unsigned long long)g->bytes);
	if (((const char *)block)[bytes - 1] != '\0' || !header_fits(g) || !classes_fit(g) ||
	    !mtas_fit(g) || !windows_fit(g) || !providers_fit(g) || !accounts_fit(g))
		return diag_set(diag, 0, "the configuration block points outside itself, or has settings out of bounds");
	return 0;
}

static uint32_t match(const struct generation *g, uint32_t index,
    const struct address *address, const char *name, size_t name_length) {
	if (index == 0)
		return CLASS_NO_RULE;
	return class_index_match((const char *)g + index, address, name, name_length);
}

/* A number of rules[]: any may stand in the index. */
static uint32_t match_rule(const struct generation *g, uint32_t index,
    const struct address *address, const char *name, size_t name_length) {
	uint32_t rule = match(g, index, address, name, name_length);

	return rule < g->rule_count ? rule : CLASS_NO_RULE;
}

uint32_t generation_match_inbound(const struct generation *g, uint16_t port,
    const struct address *client, const char *name, size_t name_length) {
	uint32_t index = g->other_index;

	for (uint32_t i = 0; i < g->port_count; i++)
		if (g->ports[i] == port) {
			index = g->port_index[i];
			break;
		}
	return match_rule(g, index, client, name, name_length);
}

uint32_t generation_match_outbound(const struct generation *g,
    const struct address *server, const char *name, size_t name_length) {
	return match_rule(g, g->outbound_index, server, name, name_length);
}

bool generation_is_exempt(const struct generation *g,
    const struct address *client, const char *name, size_t name_length) {
	return match(g, g->exempt_index, client, name, name_length) != CLASS_NO_RULE;
}

/* Does a line of the site's file name the next hop? */
static bool site_routes(const struct generation *g, const struct generation_mta *mta,
    const char *domain, size_t length) {
	return match(g, mta->site_route_index, NULL, domain, length) < mta->site_route_count;
}

bool generation_site_excludes(const struct generation *g,
    const struct generation_mta *mta, const char *domain, size_t length,
    const char **reason) {
	const uint32_t *reasons = (const uint32_t *)(const void *)
	    ((const char *)g + mta->site_reasons);
	uint32_t rule = match(g, mta->site_excluded_index, NULL, domain, length);

	if (rule == CLASS_NO_RULE && (mta->transport == 0 || site_routes(g, mta, domain, length)))
		return false;
	if (reason != NULL)
		*reason = rule < mta->site_excluded_count ? generation_text(g, reasons[rule]) : "";
	return true;
}

const char *generation_site_listed(const struct generation *g, unsigned mta, uint32_t number) {
	const struct generation_mta *row = &g->mtas[mta];
	const uint32_t *names = (const uint32_t *)(const void *)
	    ((const char *)g + row->site_route_names);
	const uint32_t *routes = (const uint32_t *)(const void *)
	    ((const char *)g + row->site_routes);
	const char *name = row->site_route_names == 0 ? "" : generation_text(g, names[number]);
	size_t length = strlen(name);

	return *name != '\0' && *generation_text(g, routes[number]) != '\0' &&
	    match(g, row->site_route_index, NULL, name, length) == number &&
	    !generation_site_excludes(g, row, name, length, NULL) ? name : "";
}

const char *generation_site_next_hop(const struct generation *g,
    const struct generation_mta *mta, const char *domain, size_t length) {
	const uint32_t *routes = (const uint32_t *)(const void *)
	    ((const char *)g + mta->site_routes);
	uint32_t rule = match(g, mta->site_route_index, NULL, domain, length);

	if (rule == CLASS_NO_RULE || rule >= mta->site_route_count)
		return mta->transport != 0 ? "" : generation_text(g, mta->relayhost);
	return generation_text(g, routes[rule]);
}

/* "0123456789abcdef /etc/postfix/main.cf"; site.c has made sure of it. */
const char *generation_site_watch(const struct generation *g,
    const struct generation_mta *mta, uint32_t number, uint64_t *stamp) {
	const uint32_t *texts = (const uint32_t *)(const void *)
	    ((const char *)g + mta->site_watches);
	const char *text = generation_text(g, texts[number]);
	char *end;

	*stamp = strtoull(text, &end, 16);
	return *end == ' ' ? end + 1 : end;
}

uint32_t generation_site_changed(const struct generation *g,
    const struct generation_mta *mta) {
	for (uint32_t i = 0; i < mta->site_watch_count; i++) {
		uint64_t stamp;
		const char *path = generation_site_watch(g, mta, i, &stamp);

		if (file_stamp(path) != stamp)
			return i + 1;
	}
	return 0;
}

bool generation_site_lists(const struct generation *g,
    const struct generation_mta *mta, const char *domain, size_t length) {
	return mta->site_only_listed == 0 ||
	    match(g, mta->site_listed_index, NULL, domain, length) != CLASS_NO_RULE;
}

const char *generation_journal_word(enum journal_room room) {
	static const char *const words[JOURNAL_ROOMS] = {
		[JOURNAL_ROOM_FEED] = "feed", [JOURNAL_ROOM_KEEPER] = "keeper",
		[JOURNAL_ROOM_QUEUE] = "queue", [JOURNAL_ROOM_DECISIONS] = "decisions",
		[JOURNAL_ROOM_ACCOUNTS] = "accounts",
	};

	return words[room];
}

bool generation_journal_directory(const struct generation *g, enum journal_room room,
    char *out) {
	const char *path = generation_text(g, g->journal.path);

	out[0] = '\0';
	return *path != '\0' && snprintf(out, PATH_MAX, "%s/%s", path,
	    generation_journal_word(room)) < PATH_MAX;
}

static bool is_to_drive(const struct generation *g) {
	for (uint32_t i = 0; i < g->mta_count; i++)
		if (g->mtas[i].drive != 0)
			return true;
	return false;
}

bool generation_logs_as(const struct generation_mta *mta, uint32_t uid) {
	for (uint32_t i = 0; i < mta->log_uid_count; i++)
		if (mta->log_uids[i] == uid)
			return true;
	return uid == 0;
}

bool generation_is_fed(const struct generation *g) {
	for (uint32_t i = 0; i < g->listener_count; i++)
		if (g->listeners[i].kind == LISTENER_SYSLOG ||
		    g->listeners[i].kind == LISTENER_EVENTS)
			return true;
	return false;
}

bool generation_reads_sd_journal(const struct generation *g) {
	for (uint32_t i = 0; i < g->mta_count; i++)
		if (sd_log_is(generation_text(g, g->mtas[i].log)))
			return true;
	return false;
}

bool generation_drives(const struct generation *g) {
	return g->confined[0] == '\0' && is_to_drive(g);
}

bool generation_drive_is_refused(const struct generation *g) {
	return g->confined[0] != '\0' && is_to_drive(g);
}

int generation_log_facility(const struct generation *g) {
	/* the words of log.facility, in their order */
	static const int facilities[] = {
		LOG_MAIL, LOG_DAEMON, LOG_AUTH, LOG_USER, LOG_LOCAL0, LOG_LOCAL1, LOG_LOCAL2,
		LOG_LOCAL3, LOG_LOCAL4, LOG_LOCAL5, LOG_LOCAL6, LOG_LOCAL7,
	};

	if (g->log_facility >= sizeof(facilities) / sizeof(facilities[0]))
		return LOG_MAIL;
	return facilities[g->log_facility];
}
