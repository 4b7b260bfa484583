/* SPDX-License-Identifier: ISC */
#include "tests/machine/fiber.h"

#include <linux/futex.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "base/clock.h"
#include "base/diag.h"

#define STACK_BYTES	(256 * 1024)
#define TOUCH_NS	20		/* what a load or store takes */
#define SEIZED_NS	(3 * NS_PER_MS)	/* how long nobody has a processor for a fiber, at most */
#define FAR		(UINT64_C(1) << 40)
#define NEVER_NS	INT64_MAX
#define JUMP_WORDS	5	/* of __builtin_setjmp: without a system call, which swapcontext has */

struct fiber {
	struct fiber *next;
	struct process *process;
	ucontext_t context;	/* to begin it */
	void *jump[JUMP_WORDS];	/* to go on with it */
	bool begun;
	void (*main)(void *);
	void *argument;
	void *locals;		/* its thread-local variables, while it does not run */
	bool ended, ready;
	int64_t wake_ns;	/* while it is not ready */
	const void *waits_for;	/* a word; NULL: for time alone, or for process_wake */
	bool woken;
	const struct robust_list_head *robust;
	uint32_t thread;
	int64_t ran_ns;
	struct watched watched;
};

struct timer {
	struct timer *next;
	int64_t at_ns;
	void (*call)(void *);
	void *argument;
};

struct watched watched;

static struct {
	const struct plan *plan;
	struct draws draws;
	struct fiber *fibers, *current;
	void *world[JUMP_WORDS];
	void *world_locals;
	struct timer *timers;
	int64_t now_ns;
	uint64_t armed;		/* what watched.left was */
	uint64_t slice;		/* until the fiber is interrupted */
	uint32_t switches_left;
	uint32_t next_thread;
	void (*on_death)(struct process *);
	char *locals;		/* where thread-local variables are, */
	size_t locals_bytes;
	const void *locals_at_first;
	size_t locals_first_bytes;
} machine;

/* --- thread-local variables -------------------------------------------------------- */

static int find_locals(struct dl_phdr_info *info, size_t size, void *context) {
	(void)size, (void)context;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];

		if (part->p_type != PT_TLS)
			continue;
		machine.locals = info->dlpi_tls_data;
		machine.locals_bytes = part->p_memsz;
		machine.locals_at_first = (const void *)(info->dlpi_addr + part->p_vaddr);
		machine.locals_first_bytes = part->p_filesz;
	}
	return 1;	/* the program is the first of all */
}

static void *locals_new(void) {
	void *locals = calloc(1, machine.locals_bytes);

	MUST(locals != NULL);
	memcpy(locals, machine.locals_at_first, machine.locals_first_bytes);
	return locals;
}

static void locals_swap(void *from, const void *to) {
	memcpy(from, machine.locals, machine.locals_bytes);
	memcpy(machine.locals, to, machine.locals_bytes);
}

/* --- time -------------------------------------------------------------------------- */

/* What was touched since watched.left was set. */
static uint64_t touched(void) {
	return machine.current == NULL ? 0 : machine.armed - watched.left;
}

int64_t fibers_now_ns(void) {
	return machine.now_ns + (int64_t)touched() * TOUCH_NS;
}

static void settle(void) {
	struct process *process = machine.current->process;
	uint64_t count = touched();

	machine.now_ns += (int64_t)count * TOUCH_NS;
	machine.current->ran_ns += (int64_t)count * TOUCH_NS;
	machine.slice -= count < machine.slice ? count : machine.slice;
	if (process->dies_after > 0)
		process->dies_after -= count < process->dies_after ? count : process->dies_after - 1;
	if (process->stops_after > 0)
		process->stops_after -= count < process->stops_after ? count :
		    process->stops_after - 1;
	machine.armed = watched.left = FAR;
}

static int64_t next_due_ns(void) {
	int64_t due_ns = machine.timers == NULL ? NEVER_NS : machine.timers->at_ns;

	for (const struct fiber *f = machine.fibers; f != NULL; f = f->next)
		if (!f->ended && !f->ready && f->wake_ns < due_ns)
			due_ns = f->wake_ns;
	return due_ns;
}

static uint64_t least(uint64_t a, uint64_t b) {
	return a < b ? a : b;
}

static void arm(void) {
	const struct process *process = machine.current->process;
	int64_t due_ns = next_due_ns();
	uint64_t left = machine.slice;

	if (due_ns < machine.now_ns + (int64_t)FAR)
		left = least(left, due_ns <= machine.now_ns ? 1 :
		    1 + (uint64_t)(due_ns - machine.now_ns) / TOUCH_NS);
	if (process->dies_after > 0)
		left = least(left, process->dies_after);
	if (process->stops_after > 0)
		left = least(left, process->stops_after);
	machine.armed = watched.left = left > 0 ? left : 1;
}

void timer_at(int64_t at_ns, void (*call)(void *), void *argument) {
	struct timer *timer = malloc(sizeof(*timer)), **at = &machine.timers;

	MUST(timer != NULL);
	*timer = (struct timer){ .at_ns = at_ns, .call = call, .argument = argument };
	while (*at != NULL && (*at)->at_ns <= at_ns)
		at = &(*at)->next;
	timer->next = *at;
	*at = timer;
}

/* --- fibers ------------------------------------------------------------------------ */

__attribute__((noinline)) static void leave(void) {
	struct fiber *fiber = machine.current;

	fiber->watched = watched;
	watched = (struct watched){ .left = FAR };
	machine.current = NULL;
	locals_swap(fiber->locals, machine.world_locals);
	if (__builtin_setjmp(fiber->jump) == 0)
		__builtin_longjmp(machine.world, 1);
}

__attribute__((noinline)) static void enter(struct fiber *fiber) {
	machine.current = fiber;
	watched = fiber->watched;
	machine.slice = machine.switches_left > 0 ?
	    (uint64_t)draw_scale(&machine.draws, 1, 2 * machine.plan->pace) : FAR;
	arm();
	locals_swap(machine.world_locals, fiber->locals);
	if (__builtin_setjmp(machine.world) != 0)
		return;
	if (fiber->begun)
		__builtin_longjmp(fiber->jump, 1);
	fiber->begun = true;
	(void)setcontext(&fiber->context);
	abort();
}

static void fiber_begin(void) {
	machine.current->main(machine.current->argument);
	process_kill(machine.current->process);
}

static void fiber_new(struct process *process, void (*main)(void *), void *argument) {
	struct fiber *fiber = calloc(1, sizeof(*fiber)), **last = &machine.fibers;

	MUST(fiber != NULL && getcontext(&fiber->context) == 0);
	fiber->process = process;
	fiber->main = main;
	fiber->argument = argument;
	fiber->ready = true;
	fiber->thread = machine.next_thread++;
	fiber->locals = locals_new();
	fiber->context.uc_stack.ss_sp = malloc(STACK_BYTES);
	MUST(fiber->context.uc_stack.ss_sp != NULL);
	fiber->context.uc_stack.ss_size = STACK_BYTES;
	makecontext(&fiber->context, fiber_begin, 0);
	while (*last != NULL)
		last = &(*last)->next;
	*last = fiber;
}

void process_start(struct process *process, const char *name, void (*main)(void *), void *own) {
	*process = (struct process){ .name = name, .pid = (int32_t)machine.next_thread,
		.node = process->node, .alive = true, .own = own };
	fiber_new(process, main, process);
}

void process_thread(void (*main)(void *), void *argument) {
	fiber_new(machine.current->process, main, argument);
}

struct process *process_current(void) {
	return machine.current == NULL ? NULL : machine.current->process;
}

static const struct robust_list_head *robust_head(const struct fiber *fiber) {
	if (fiber->robust == NULL || fiber == machine.current)
		return fiber->robust;
	return (const void *)((const char *)fiber->locals +
	    ((const char *)fiber->robust - machine.locals));
}

/* What the kernel does with the locks that a dead thread held. */
static void robust_one(const struct robust_list *entry, long offset, uint32_t thread) {
	_Atomic uint32_t *word = (_Atomic uint32_t *)(void *)((const char *)entry + offset);

	if (entry == NULL || (*word & FUTEX_TID_MASK) != thread)
		return;
	*word = (*word & FUTEX_WAITERS) | FUTEX_OWNER_DIED;
	if ((*word & FUTEX_WAITERS) != 0)
		(void)fibers_wake(word, 1);
}

static void robust_end(struct fiber *fiber) {
	const struct robust_list_head *head = robust_head(fiber);
	const struct robust_list *entry;

	if (head == NULL)
		return;
	entry = head->list.next;
	for (unsigned i = 0; entry != &fiber->robust->list && i < 64; i++) {
		const struct robust_list *next = entry->next;

		if (entry != head->list_op_pending)
			robust_one(entry, head->futex_offset, fiber->thread);
		entry = next;
	}
	entry = head->list_op_pending;
	robust_one(entry, head->futex_offset, fiber->thread);
	/* given back, and nobody woken yet: the kernel does that */
	if (entry != NULL && *(const uint32_t *)(const void *)((const char *)entry + head->futex_offset) == 0)
		(void)fibers_wake((const char *)entry + head->futex_offset, 1);
}

void process_kill(struct process *process) {
	bool own = machine.current != NULL && machine.current->process == process;

	if (!process->alive)
		return;
	process->alive = false;
	for (struct fiber *f = machine.fibers; f != NULL; f = f->next) {
		if (f->process != process || f->ended)
			continue;
		robust_end(f);
		f->ended = true;
		f->ready = false;
	}
	if (machine.on_death != NULL)
		machine.on_death(process);
	if (own)
		leave();
}

void process_stop(struct process *process, int64_t for_ns) {
	process->stopped_until_ns = fibers_now_ns() + for_ns;
}

void processes_on_death(void (*call)(struct process *)) {
	machine.on_death = call;
}

/* --- what a fiber does --------------------------------------------------------------- */

void fiber_sleep(int64_t until_ns) {
	settle();
	machine.current->ready = false;
	machine.current->woken = false;
	machine.current->wake_ns = until_ns;
	leave();
}

void process_wake(struct process *process) {
	for (struct fiber *f = machine.fibers; f != NULL; f = f->next)
		if (f->process == process && !f->ended && f->waits_for == NULL)
			f->ready = true;
}

bool fiber_wait(const void *word, int64_t until_ns) {
	machine.current->waits_for = word;
	fiber_sleep(until_ns);
	machine.current->waits_for = NULL;
	return machine.current->woken;
}

/* The same word lies at another address in each process: in the same place of a mapping. */
static uintptr_t place_of(const struct watched *mapping, const void *word) {
	return (uintptr_t)word - mapping->low;
}

unsigned fibers_wake(const void *word, unsigned most) {
	const struct watched *mine = machine.current != NULL ? &watched : NULL;
	unsigned count = 0, node = machine.current != NULL ? machine.current->process->node : 0;

	for (struct fiber *f = machine.fibers; f != NULL && mine == NULL; f = f->next) {
		if ((uintptr_t)word - f->watched.low < f->watched.bytes) {
			mine = &f->watched;
			node = f->process->node;
		}
	}
	for (struct fiber *f = machine.fibers; f != NULL && count < most && mine != NULL; f = f->next) {
		if (f->ended || f->waits_for == NULL || f->woken || f->process->node != node ||
		    place_of(&f->watched, f->waits_for) != place_of(mine, word))
			continue;
		f->woken = f->ready = true;
		count++;
	}
	return count;
}

bool fibers_pend(const void *word) {
	for (const struct fiber *f = machine.fibers; f != NULL; f = f->next) {
		const struct robust_list_head *head = robust_head(f);
		const char *lock;

		/* one that was woken may be stopped: it wakes the next one */
		if (f == machine.current || f->ended || (f->waits_for != NULL && !f->woken) ||
		    head == NULL || head->list_op_pending == NULL)
			continue;
		lock = (const char *)head->list_op_pending + head->futex_offset;
		if (f->process->node == machine.current->process->node &&
		    place_of(&f->watched, lock) == place_of(&watched, word))
			return true;
	}
	return false;
}

int64_t fiber_ran_ns(void) {
	return machine.current == NULL ? 0 :
	    machine.current->ran_ns + (int64_t)touched() * TOUCH_NS;
}

uint32_t fiber_thread(void) {
	return machine.current == NULL ? 1 : machine.current->thread;
}

void fiber_set_robust_list(const void *head) {
	if (machine.current != NULL)
		machine.current->robust = head;
}

void fiber_watch(const void *low, uint64_t bytes) {
	watched.low = (uintptr_t)low;
	watched.bytes = bytes;
}

void fiber_watch_also(const void *low, uint64_t bytes) {
	watched.also_low = (uintptr_t)low;
	watched.also_bytes = bytes;
}

static bool is_ready(const struct fiber *fiber) {
	return fiber->ready && fiber->process->stopped_until_ns <= machine.now_ns;
}

static bool others_are_ready(void) {
	for (const struct fiber *f = machine.fibers; f != NULL; f = f->next)
		if (f != machine.current && is_ready(f))
			return true;
	return false;
}

static bool holds_lock(const struct fiber *fiber) {
	return fiber->robust != NULL && fiber->robust->list.next != &fiber->robust->list;
}

void fiber_interrupt(void) {
	struct process *process = machine.current->process;
	bool strikes;

	settle();
	strikes = !process->struck_in_lock || (holds_lock(machine.current) &&
	    ((process->dies_after != 1 && process->stops_after != 1) ||
		process->lock_touches-- == 0));
	if (process->lock_touches == UINT32_MAX)
		process->lock_touches = 0;
	if (process->dies_after == 1 && strikes) {
		process->dies_after = 0;
		process_kill(process);
	}
	if (process->stops_after == 1 && strikes) {
		process->stops_after = 0;
		process->stopped_until_ns = machine.now_ns + process->stops_ns;
	} else if (machine.slice > 0 && next_due_ns() > machine.now_ns) {
		arm();
		return;
	} else if (machine.slice == 0) {
		machine.switches_left -= machine.switches_left > 0;
		if (!others_are_ready()) {
			machine.current->ready = false;
			machine.current->wake_ns = machine.now_ns +
			    draw_scale(&machine.draws, NS_PER_MS / 1000, SEIZED_NS);
		}
	}
	leave();
}

/* --- the scheduler ------------------------------------------------------------------- */

static void fire_timers(void) {
	while (machine.timers != NULL && machine.timers->at_ns <= machine.now_ns) {
		struct timer *timer = machine.timers;

		machine.timers = timer->next;
		timer->call(timer->argument);
		free(timer);
	}
}

static struct fiber *choose(void) {
	struct fiber *chosen = NULL;
	uint32_t count = 0;

	for (struct fiber *f = machine.fibers; f != NULL; f = f->next) {
		if (!f->ended && !f->ready && f->wake_ns <= machine.now_ns)
			f->ready = true;
		if (is_ready(f) && draw_below(&machine.draws, ++count) == 0)
			chosen = f;
	}
	return chosen;
}

static int64_t next_ns(void) {
	int64_t due_ns = next_due_ns();

	for (const struct fiber *f = machine.fibers; f != NULL; f = f->next)
		if (f->ready && f->process->stopped_until_ns < due_ns)
			due_ns = f->process->stopped_until_ns;
	return due_ns;
}

void fibers_run(int64_t until_ns) {
	while (machine.now_ns < until_ns) {
		struct fiber *fiber;
		int64_t due_ns;

		fire_timers();
		fiber = choose();
		if (fiber != NULL) {
			enter(fiber);
			continue;
		}
		due_ns = next_ns();
		machine.now_ns = due_ns < until_ns ? (due_ns > machine.now_ns ? due_ns :
		    machine.now_ns + 1) : until_ns;
	}
}

void fibers_pass(int64_t ns) {
	machine.now_ns += ns;
}

void fibers_calm(void) {
	machine.switches_left = 0;
	for (struct fiber *f = machine.fibers; f != NULL; f = f->next) {
		f->process->dies_after = f->process->stops_after = 0;
		f->process->stopped_until_ns = 0;
	}
}

void fibers_begin(const struct plan *plan) {
	machine.plan = plan;
	machine.draws.state = plan->seed ^ UINT64_C(0x5eed);
	machine.switches_left = plan->switches;
	machine.next_thread = 1000;
	machine.now_ns = 1000 * NS_PER_SECOND;
	watched.left = FAR;
	(void)dl_iterate_phdr(find_locals, NULL);
	MUST(machine.locals != NULL);
	machine.world_locals = locals_new();
}
