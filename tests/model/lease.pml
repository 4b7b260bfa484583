/* SPDX-License-Identifier: ISC */
/*
 * The lease protocol of shared limits (policy/window/share.h, src/front/cluster/lease.lua,
 * src/wire/cluster/cluster_call.c), for spin: NODES machines share PLACES places of one pool, by calls
 * that are lost, late and repeated; they stop, restart and reboot, and the server loses its
 * data.  Run it by tests/model/run; what stands for what is told there in README.
 *
 * Proved in each state: what the nodes may use is never more than PLACES in all (safe), and
 * whatever has happened, once nothing more goes wrong any single node that is left can have
 * all places, after bounded time (back): no place is lost for ever.
 *
 * Time goes by in ticks.  A node may use a grant for USE ticks of its clock from when it sent
 * the call; an observer must have seen GONE ticks, a new epoch waits GONE ticks.  The clock of
 * node 0 may lose one tick in USE where SLOW is 1 (drift: GONE >= USE + SLOW).
 */
#ifndef NODES
#define NODES	3
#endif
#ifndef PLACES
#define PLACES	1
#endif
#ifndef USE
#define USE	2
#endif
#ifndef SLOW
#define SLOW	0
#endif
#define GONE	(is(NO_DRIFT) -> USE : USE + SLOW)
#define BACK	(2 * (USE + SLOW) + 3)	/* ticks until all places are back */
#define WAIT	255		/* an answer that grants nothing: the epoch is too young */
#define EPOCH	NODES		/* the row of the epoch, beside those of the nodes */
#define ALL	((1 << (NODES + 1)) - 1)

/* What the model must be able to find wrong: MUTANT in the environment, one of these. */
#define TOLD_FIRST	1	/* a node tells what it will keep, and lowers it when it is answered */
#define NO_TOKEN	2	/* calls from before the last hello are carried out, too */
#define NO_SEQUENCE	3	/* calls are carried out again when they are repeated */
#define NO_WAIT		4	/* a new epoch grants at once */
#define MARKS_STAY	5	/* time counts that was seen before a node's last call (as with one
				 * clock of the server's, moved on by what nodes have seen) */
#define HOLD_BELIEVED	6	/* what a node says that it holds is not compared with the record */
#define FROM_HEARD	7	/* a node counts its lease from when it heard the answer */
#define NO_DRIFT	8	/* clocks are believed to be alike */
#define NEVER_GONE	9	/* what a node had that is gone stays its own */
#ifdef MUTANTS
#define is(m)	(mutant == m)
c_decl { \#include <stdlib.h> }
byte mutant;
#else
#define is(m)	false
#endif

#define IDLE	0		/* joined, no call out */
#define SENT	1		/* a call is on its way */
#define TOLD	2		/* carried out; the answer is on its way */
#define LOST	3		/* given up, or the server did not know us: hello is due */

/* The nodes. */
byte leased[NODES];		/* in the segment */
byte left[NODES];		/* ticks until its end, by the node's clock */
byte phase[NODES];
/* The call that is out, and its answer. */
byte hold[NODES];
byte call_left[NODES];		/* USE, less what has gone by since it was sent */
byte gone[NODES];		/* bits: rows that have been seen silent for GONE when it was sent */
byte granted[NODES];	/* 0 or WAIT: call_left is 0, too, it does not matter */
byte after[NODES];		/* bits: rows that were not renewed since the answer was made */
/* seen[row * NODES + node]: 1 + ticks since the node first heard an answer that was made
 * after the row's last renewal; 0: it did not yet. */
byte seen[(NODES + 1) * NODES];
#if SLOW
byte even;			/* ticks since node 0 lost one */
#endif
#ifdef MUTANTS
/* A call that was given up, or repeated by the network, and may still arrive (only where the
 * script does without a check: with it, it does nothing, and is left out). */
bool old[NODES];
byte old_hold[NODES];
#endif

/* The server. */
byte record[NODES];
bool ready;			/* the epoch's wait is over */

byte i, j, k, sum, keep, grant, least, free_places;
byte n;

#define may_use(n)	(left[n] > 0 -> leased[n] : 0)

/* Rows that cannot matter are as if nobody had seen anything: of a node that has no record
 * (nothing would end), of the epoch once it is ready.  Ends each step that changes records. */
inline tidy() {
	for (i : 0 .. NODES) {
		if
		:: (i < NODES && record[i] > 0) || (i == EPOCH && !ready)
		:: else ->
			for (j : 0 .. NODES - 1) {
				seen[i * NODES + j] = 0;
				gone[j] = gone[j] & ~(1 << i);
				after[j] = after[j] & ~(1 << i)
			}
		fi
	}
	/* The server takes no more for held than it has recorded. */
	for (i : 0 .. NODES - 1) {
		if :: hold[i] > record[i] && !is(HOLD_BELIEVED) -> hold[i] = record[i] :: else fi
	}
	i = 0; j = 0
}

inline check() {
	sum = 0;
	for (i : 0 .. NODES - 1) { sum = sum + may_use(i) }
	i = 0;
	assert(sum <= PLACES);
	sum = 0
}

/* One tick; node 0's clock stands still if `slow`. */
inline tick(slow) {
	for (i : 0 .. NODES - 1) {
		if
		:: i == 0 && slow -> skip
		:: else ->
			if :: left[i] > 0 -> left[i]-- :: else fi;
			if :: call_left[i] > 0 -> call_left[i]-- :: else fi;
			for (j : 0 .. NODES) {
				if
				:: seen[j * NODES + i] > 0 && seen[j * NODES + i] <= GONE ->
					seen[j * NODES + i]++
				:: else
				fi
			}
		fi;
		/* What has ended is the same as nothing. */
		if :: left[i] == 0 -> leased[i] = 0 :: else fi
	}
	i = 0; j = 0
}

/* share_lower, then the call: keeps `keep` of what it may use. */
inline send() {
	hold[n] = keep;
	if
	:: is(TOLD_FIRST) -> skip
	:: else ->
		leased[n] = keep;
		if :: keep == 0 -> left[n] = 0 :: else fi
	fi;
	call_left[n] = USE;
	gone[n] = 0;
	for (j : 0 .. NODES) {
		if
		:: j != n && !(is(NEVER_GONE) && j < NODES) && seen[j * NODES + n] == GONE + 1 -> gone[n] = gone[n] | (1 << j)
		:: else
		fi
	}
	j = 0;
	keep = 0;
	phase[n] = SENT
}

/* The script: who is gone, the renewal, and how much may be granted: least to
 * least + free_places. */
inline arrive() {
	for (j : 0 .. NODES - 1) {
		if :: (gone[n] >> j) & 1 -> record[j] = 0 :: else fi
	}
	if :: (gone[n] >> EPOCH) & 1 -> ready = true :: else fi;
	for (j : 0 .. NODES - 1) {
		if
		:: is(MARKS_STAY) -> skip
		:: else ->
			seen[n * NODES + j] = 0;
			gone[j] = gone[j] & ~(1 << n);
			after[j] = after[j] & ~(1 << n)
		fi
	}
	least = (keep < record[n] || is(HOLD_BELIEVED) -> keep : record[n]);
	free_places = PLACES;
	for (j : 0 .. NODES - 1) {
		if
		:: j == n -> free_places = (free_places > least -> free_places - least : 0)
		:: else -> free_places = (free_places > record[j] -> free_places - record[j] : 0)
		fi
	}
	j = 0;
	keep = 0;
	gone[n] = 0
}

/* The answer is made.  `grant` is ignored while the epoch waits. */
inline answer() {
	if
	:: ready -> record[n] = grant; granted[n] = grant
	:: else -> granted[n] = WAIT
	fi;
	if :: granted[n] == 0 || granted[n] == WAIT -> call_left[n] = 0 :: else fi;
	hold[n] = 0;
	after[n] = ALL & ~(1 << n);
	phase[n] = TOLD;
	least = 0; free_places = 0; grant = 0;
	tidy()
}

inline heard() {
	for (j : 0 .. NODES) {
		if
		:: ((after[n] >> j) & 1) && seen[j * NODES + n] == 0 -> seen[j * NODES + n] = 1
		:: else
		fi
	}
	j = 0
}

/* shares_grant. */
inline hear() {
	if
	:: granted[n] != WAIT ->
		leased[n] = granted[n];
		left[n] = (is(FROM_HEARD) -> USE : call_left[n]);
		if
		:: left[n] == 0 -> leased[n] = 0
		:: leased[n] == 0 -> left[n] = 0
		:: else
		fi
	:: else
	fi;
	heard();
	nothing_out(n, IDLE)
}

inline nothing_out(n, becomes) {
	phase[n] = becomes;
	hold[n] = 0; call_left[n] = 0; gone[n] = 0; granted[n] = 0; after[n] = 0
}

/* hello, carried out and heard: whatever was called before does nothing now. */
inline rejoin() {
#ifdef MUTANTS
	if :: !is(NO_TOKEN) -> old[n] = false; old_hold[n] = 0 :: else fi;
#endif
	nothing_out(n, IDLE);
	after[n] = ALL & ~(1 << n);
	heard();
	after[n] = 0;
	tidy()
}

inline give_up() {
#ifdef MUTANTS
	if
	:: is(NO_TOKEN) && phase[n] == SENT && !old[n] -> old[n] = true; old_hold[n] = hold[n]
	:: else
	fi;
#endif
	nothing_out(n, LOST)
}

/* Another boot: another clock, and an empty segment. */
inline reboot() {
	leased[n] = 0; left[n] = 0;
	nothing_out(n, LOST);
	for (j : 0 .. NODES) { seen[j * NODES + n] = 0 }
	j = 0
}

/* The server was emptied, or started again with whatever data: hello will find no epoch, or
 * that of another run, and begin one. */
inline new_epoch() {
	for (i : 0 .. NODES - 1) {
		record[i] = 0;
		after[i] = 0;
		for (j : 0 .. NODES) { seen[j * NODES + i] = 0 }
		if
		:: phase[i] == SENT -> nothing_out(i, LOST)
		:: else
		fi
	}
	i = 0; j = 0;
	ready = is(NO_WAIT);
	tidy()
}

/* From here on nothing goes wrong, and of all nodes `n` alone is left, and wants all.  In
 * one step; all such ends are one state. */
inline back() {
	k = 0;
	do
	:: k == BACK -> break
	:: else ->
		if :: phase[n] == SENT -> keep = hold[n]; arrive(); grant = least + free_places; answer() :: else fi;
		if :: phase[n] == TOLD -> hear() :: else fi;
		if :: phase[n] == LOST -> rejoin() :: else fi;
		keep = may_use(n); send();
		keep = hold[n]; arrive();
		grant = least + free_places; answer();
		hear();
		k++;
		if :: k < BACK -> tick(0) :: else fi
	od;
	assert(may_use(n) == PLACES);
	k = 0;
	for (i : 0 .. NODES - 1) {
		leased[i] = 0; left[i] = 0; record[i] = 0;
		nothing_out(i, LOST);
		for (j : 0 .. NODES) { seen[j * NODES + i] = 0 }
	}
	i = 0; j = 0; ready = false
}

active proctype world() {
#ifdef MUTANTS
	c_code { now.mutant = getenv("MUTANT") ? atoi(getenv("MUTANT")) : 0; };
#endif
	d_step { for (i : 0 .. NODES - 1) { phase[i] = LOST } i = 0 }
	do
#if SLOW
	:: d_step { even >= USE -> tick(1); even = 0; check() }
	:: d_step { tick(0); if :: even < USE -> even++ :: else fi; check() }
#else
	:: d_step { tick(0) }
#endif
	:: d_step { new_epoch() }
	:: atomic {
		select(n : 0 .. NODES - 1);
		if
		:: d_step { phase[n] == IDLE -> keep = 0; send() }
		:: d_step { phase[n] == IDLE && may_use(n) > 0 -> keep = may_use(n); send() }
#if PLACES > 1
		:: d_step { phase[n] == IDLE && may_use(n) > 1 -> keep = may_use(n) - 1; send() }
#endif
		:: d_step { phase[n] == SENT -> keep = hold[n]; arrive(); grant = least; answer() }
		:: d_step { phase[n] == SENT -> keep = hold[n]; arrive(); grant = least + free_places; answer() }
#if PLACES > 1
		:: d_step { phase[n] == SENT -> keep = hold[n]; arrive();
			grant = least + (free_places > 1 -> free_places - 1 : 0); answer() }
#endif
		:: d_step { phase[n] == TOLD -> hear(); check() }
		:: d_step { phase[n] == SENT || phase[n] == TOLD -> give_up() }
		:: d_step { phase[n] == LOST -> rejoin() }
		:: d_step { reboot() }
		:: d_step { back(); } n = 0; goto end
#ifdef MUTANTS
		/* The network repeats it, before it arrives; it arrives after all. */
		:: d_step { is(NO_SEQUENCE) && phase[n] == SENT && !old[n] ->
			old[n] = true; old_hold[n] = hold[n] }
		:: d_step { old[n] -> k = gone[n]; gone[n] = 0; keep = old_hold[n]; arrive();
			if :: ready -> record[n] = least :: else fi;
			gone[n] = k; k = 0; tidy(); least = 0; free_places = 0; old[n] = false; old_hold[n] = 0 }
		:: d_step { old[n] -> old[n] = false; old_hold[n] = 0 }
#endif
		fi;
		n = 0
	}
	od;
end:	skip
}
