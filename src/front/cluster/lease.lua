-- SPDX-License-Identifier: ISC
-- The server's half of shared limits: who holds how much of which pool, until when.  Calls and
-- answers: src/wire/cluster/cluster_call.h; the law: policy/window/share.h; tests/model/ proves it.
--
-- All is in one hash, so that what evicts or expires it takes the epoch with it:
--   is           'postern 1': the key is ours
--   run epoch    run_id of the server, and the name of this life of the data
--   event token  the last ones given out
--   ready        1: the leases of the epoch before have ended;  longest: lease of this one
--   swept        where it is looked next for pools of nodes that are gone
--   n:SLOT       a node: NAME INSTANCE TOKEN SEQUENCE LIFE ALIVE LAST LEASE NODES;  '': free
--   m:SLOT       who has seen it silent since when: OBSERVER:MS,...;  m:0 the epoch itself
--   p:NAME       a pool: what each node has of it, see Pools
--
-- Time.  The server's clock is not used, and clocks of nodes are never compared.  A call says
-- which answer (its event) the node heard at which time of its own, and its time now.  What
-- happened up to that event was over when the node heard it: so by its own clock alone it has
-- seen at least so much time go by.  A lease has ended when one observer has seen all of it.
-- (A clock of the server's own, moved on by what nodes have seen, would be wrong: it lags by
-- unknown amounts, and a grant made while it lags would end early when it catches up.)
local SEEN = 500            -- SHARE_SEEN_MS
local SLICE = 5000          -- ms that one place of too few stays with a node while others wait
local KEEP = 86400000       -- time to live of it all, after the last call
local POOLS_MAX = 20000
local SHARES_MAX = 1500     -- in an answer to look
local SLOTS_MAX = 64
local MARKS_MAX = 128
local PLACES_MAX = 1000000000

local key, schema_key, channel = KEYS[1], KEYS[2], KEYS[3]

local function text(number) return string.format('%.0f', number) end

local function number(word)
  local value = word and string.match(word, '^%d+$') and #word <= 16 and tonumber(word)
  return value or nil
end

-- The call.
local head = {}
for word in string.gmatch(ARGV[1] or '', '%S+') do head[#head + 1] = word end
if #head ~= 14 then return { 'bad', '-', 0, 'head' } end
local operation, name, instance, nonce, other = head[1], head[3], head[4], head[13], head[14]
local my_schema, my_token, my_sequence = number(head[2]), number(head[5]), number(head[6])
local my_epoch, my_event = head[7], number(head[8])
local heard, sent = number(head[9]), number(head[10])
local my_lease, my_nodes = number(head[11]), number(head[12])
if not (my_schema and my_token and my_sequence and my_event and heard and sent and my_lease
    and my_nodes) or my_lease < 2000 or my_nodes < 1 or my_nodes > SLOTS_MAX or #name > 31
    or #instance > 32 or #nonce > 16 then
  return { 'bad', '-', 0, 'number' }
end

-- The schema of the keys.
local schema = redis.pcall('GET', schema_key)
if type(schema) == 'table' then
  if string.find(schema.err, 'WRONGTYPE') then return { 'foreign', '-', 0, 'schema' } end
  return redis.error_reply(schema.err)
end
if schema and not number(schema) then return { 'foreign', '-', 0, 'schema' } end
if schema and number(schema) > my_schema then return { 'newer', '-', 0, number(schema) } end
if schema and number(schema) < my_schema then return { 'foreign', '-', 0, 'schema' } end

-- What there is.
local fields = { 'is', 'run', 'epoch', 'event', 'token', 'ready', 'longest', 'swept', 'm:0' }
for slot = 1, SLOTS_MAX do fields[#fields + 1] = 'n:' .. slot end
local state = redis.pcall('HMGET', key, unpack(fields))
if state.err then
  if string.find(state.err, 'WRONGTYPE') then return { 'foreign', '-', 0, 'leases' } end
  return redis.error_reply(state.err)
end
if state[1] ~= 'postern 1' and redis.call('EXISTS', key) == 1 then
  return { 'foreign', '-', 0, 'leases' }
end

local changes = {}
local function set(field, value)
  changes[#changes + 1] = field
  changes[#changes + 1] = value
end

local run = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
-- Without it a server that comes back with old data would not be known for another.
if not run then return { 'bad', '-', 0, 'INFO tells no run_id' } end
local epoch, event, tokens, ready, longest = state[3], number(state[4]), number(state[5]),
  state[6] == '1', number(state[7])
local begun = false
if not state[1] or state[2] ~= run or not epoch or not event or not tokens or not longest then
  if operation ~= 'hello' then return { 'again', '-', 0 } end
  -- A new epoch.  Nothing is known of earlier grants but that they end.
  redis.call('DEL', key)
  begun, epoch, event, tokens, ready, longest = true, nonce, 0, 0, false, 0
  state = {}
  set('is', 'postern 1')
  set('run', run)
  set('epoch', epoch)
  set('ready', '0')
end

local nodes, slot = {}, nil
for i = 1, SLOTS_MAX do
  local record = state[9 + i]
  if record and record ~= '' then
    local w = {}
    for word in string.gmatch(record, '%S+') do w[#w + 1] = word end
    local node = { name = w[1], instance = w[2], token = number(w[3]), sequence = number(w[4]),
      life = number(w[5]), alive = w[6] == '1', last = number(w[7]), lease = number(w[8]),
      nodes = number(w[9]) }
    if not (node.token and node.sequence and node.life and node.last and node.lease
        and node.nodes) then
      return { 'foreign', '-', 0, 'node' }
    end
    nodes[i] = node
    if node.name == name then slot = i end
  end
end

local function write_node(i)
  local n = nodes[i]
  set('n:' .. i, table.concat({ n.name, n.instance, text(n.token), text(n.sequence), text(n.life),
    n.alive and '1' or '0', text(n.last), text(n.lease), text(n.nodes) }, ' '))
end

-- Rows of marks: who heard when, for the first time after the node's last call.  An observer is
-- the number of its slot, or @INSTANCE as long as it has none.
local rows = {}
local function row(i)
  if not rows[i] then
    rows[i] = {}
    local marks = i == 0 and (state[9] or '') or begun and '' or redis.call('HGET', key, 'm:' .. i)
    local count = 0
    for observer, ms in string.gmatch(marks or '', '(@?%w+):(%d+)') do
      count = count + 1
      if count <= MARKS_MAX then rows[i][tonumber(observer) or observer] = tonumber(ms) end
    end
  end
  return rows[i]
end
local function write_row(i)
  local marks = {}
  for observer, ms in pairs(rows[i]) do marks[#marks + 1] = observer .. ':' .. text(ms) end
  set('m:' .. i, table.concat(marks, ','))
end

local function gone_after(lease) return lease - SEEN end
local function wait_for(lease) return lease + math.floor(lease / 10) + 50 end

-- What this call shows of the time.
local has_heard = my_epoch == epoch and my_event <= event and heard <= sent and heard > 0
-- ms that `observer` has seen go by since the row was cleared at event `last`.
local function seen(i, observer, last)
  local marks = row(i)
  if not marks[observer] and has_heard and my_event >= last then
    marks[observer] = heard
    write_row(i)
  end
  return marks[observer] and math.max(0, sent - marks[observer]) or 0
end

local function observe(observer)
  for i, node in pairs(nodes) do
    if i ~= observer and node.alive and seen(i, observer, node.last) >= gone_after(node.lease) then
      node.alive = false
      write_node(i)
    end
  end
  if not ready and seen(0, observer, 0) >= wait_for(longest) then
    ready = true
    set('ready', '1')
  end
end

local function left(i, observer)
  return math.max(1, gone_after(nodes[i].lease) - (row(i)[observer] and sent - row(i)[observer] or 0))
end

local function totals()
  local most, alive, known = my_nodes, 0, 0
  for _, node in pairs(nodes) do
    known = known + 1
    if node.alive then
      alive = alive + 1
      most = math.max(most, node.nodes)
    end
  end
  -- Who is not heard of any more has its static part all the same.
  return math.max(most, known), alive, known
end

local function forget_observer(observer)
  for i in pairs(nodes) do
    if row(i)[observer] then
      rows[i][observer] = nil
      write_row(i)
    end
  end
  if row(0)[observer] then
    rows[0][observer] = nil
    write_row(0)
  end
end

local function finish(answer)
  set('event', text(event))
  set('token', text(tokens))
  set('longest', text(longest))
  redis.call('HSET', key, unpack(changes))
  redis.call('PEXPIRE', key, KEEP)
  if not schema or operation == 'hello' then
    redis.call('SET', schema_key, text(my_schema), 'PX', 30 * KEEP)
  end
  return answer
end

local function wait_left()
  if ready then return 0 end
  return math.max(1, wait_for(longest) - (row(0)[slot] and sent - row(0)[slot] or 0))
end

local function ok()
  local most, alive, known = totals()
  return { 'ok', epoch, event, nodes[slot].token, nodes[slot].life, wait_left(), most, alive, known }
end

-- Another lease would end at another time than others reckon with.
local function other_lease()
  for i, node in pairs(nodes) do
    if i ~= slot and node.alive and node.lease ~= my_lease then
      return finish({ 'lease', epoch, event, node.lease, node.name })
    end
  end
end

local function hello()
  local is_own = slot and nodes[slot].instance == instance
  local watcher = is_own and slot or '@' .. instance
  -- Before it is refused: it may use what it had before this epoch, and where all are refused
  -- nobody else would see that a lease has ended.
  longest = math.max(longest, my_lease)
  observe(watcher)
  if slot and not is_own then
    if nodes[slot].alive then
      return finish({ 'taken', epoch, event, left(slot, watcher), nodes[slot].instance })
    end
    -- Another machine's clock, or another boot's: what the old one saw is worth nothing.
    forget_observer(slot)
    nodes[slot].instance = instance
  end
  local refused = other_lease()
  if refused then return refused end
  if not slot then
    local most, _, known = totals()
    if known >= most then return { 'full', epoch, event, most } end
    slot = 1
    while nodes[slot] do slot = slot + 1 end
    nodes[slot] = { name = name, instance = instance, life = 0, alive = false, last = 0 }
  end
  event, tokens = event + 1, tokens + 1
  local node = nodes[slot]
  observe(slot)
  node.token, node.sequence = tokens, 0
  if not node.alive then node.lease, node.nodes = my_lease, my_nodes end
  write_node(slot)
  return finish(ok())
end

-- Pools.  A record is a packed list: of each node that has or needs something the numbers below,
-- one after the other.  (With 64 nodes and 100 classes a call reads 12,800 such rows: as text
-- they took three times as long.)

local WIDTH = 10
local SLOT, LIFE, GRANTED, NEED, LIMIT, STATIC, VERSION, OPEN, ODD, WAITS = 0, 1, 2, 3, 4, 5, 6, 7,
  8, 9

-- What of it counts: entries of this life of nodes whose lease has not ended; and where that of
-- the caller is.
local function read_pool(record)
  local good, all = pcall(cmsgpack.unpack, record or '')
  if not good or type(all) ~= 'table' or #all % WIDTH ~= 0 then return {} end
  local kept, own = 0, nil
  for at = 1, #all, WIDTH do
    local i = all[at + SLOT]
    local node = nodes[i]
    if node and node.alive and node.life == all[at + LIFE] then
      if i == slot then own = kept + 1 end
      if kept < at - 1 then
        for field = 1, WIDTH do all[kept + field] = all[at - 1 + field] end
      end
      kept = kept + WIDTH
    end
  end
  for i = #all, kept + 1, -1 do all[i] = nil end
  return all, own
end

local function remove(entries, own)
  for i = own, #entries do entries[i] = entries[i + WIDTH] end
end

local function is_same(entries, own, was)
  for i = 1, WIDTH do
    if entries[own - 1 + i] ~= was[i] then return false end
  end
  return true
end

-- What counts of all settings: of the greatest version the lowest limit; the greatest static
-- part.  What others have, need and lack.
local function sum_up(entries, own)
  local s = { fixed = 0, granted = 0, need = 0, short = 0 }
  local own_limit, own_fixed, version = entries[own + LIMIT], entries[own + STATIC], 0
  for at = 1, #entries, WIDTH do
    local l, f, v = entries[at + LIMIT], entries[at + STATIC], entries[at + VERSION]
    if v > version then version, s.limit = v, nil end
    if v == version and (not s.limit or l < s.limit) then s.limit = l end
    if f > s.fixed then s.fixed = f end
    if l ~= own_limit or f ~= own_fixed then s.differs = true end
    if at ~= own then
      local g, n = entries[at + GRANTED], entries[at + NEED]
      s.granted, s.need = s.granted + g, s.need + n
      if n > g then s.short = s.short + n - g end
    end
  end
  return s
end

-- Whose turn is it to have one of `odd` places that so many need who have the same?  In
-- turns: the longest waiting first, of those who ask as often as this one.
local function odd_one(entries, waiting, own, odd, before)
  local having, ahead, others = 0, 0, false
  local had, waits = entries[own + ODD], entries[own + WAITS]
  for _, at in ipairs(waiting) do
    if at ~= own then
      local since = entries[at + WAITS]
      if entries[at + ODD] > 0 then
        having = having + 1
      else
        others = true
        if since > 0 and (waits == 0 or since < waits)
            and nodes[entries[at + SLOT]].last > before then
          ahead = ahead + 1
        end
      end
    end
  end
  if had > 0 then
    if others and (sent - had >= SLICE or sent < had) or having >= odd then
      entries[own + ODD], entries[own + WAITS] = 0, event
      return 0
    end
    return 1
  end
  if having + ahead < odd then
    entries[own + ODD], entries[own + WAITS] = sent, 0
    return 1
  end
  if waits == 0 then entries[own + WAITS] = event end
  return 0
end

-- Max-min fairness: whoever needs less than the level has it, the others have the level.
local function fair_part(entries, own, places, needs, before)
  local waiting, level = {}, places
  if needs > places then
    local rest, count = places, 0
    for at = 1, #entries, WIDTH do waiting[#waiting + 1] = at end
    while count ~= #waiting do
      local more = {}
      count = #waiting
      level = math.floor(rest / count)
      for _, at in ipairs(waiting) do
        if entries[at + NEED] > level then
          more[#more + 1] = at
        else
          rest = rest - entries[at + NEED]
        end
      end
      waiting = more
    end
    if entries[own + NEED] > level and rest > level * count then
      return level + odd_one(entries, waiting, own, rest - level * count, before)
    end
  end
  entries[own + ODD], entries[own + WAITS] = 0, 0
  return level
end

local lacks = false     -- of a class it needs more than it was granted, and others have it

local function settle(answer, ask, record, most, waits, before, full)
  local entries, own = read_pool(record)
  local was = own and { unpack(entries, own, own + WIDTH - 1) }
  if not was then
    own = #entries + 1
    for i = 0, WIDTH - 1 do entries[own + i] = 0 end
    entries[own + SLOT], entries[own + LIFE] = slot, nodes[slot].life
  end
  local hold = math.min(ask.hold, entries[own + GRANTED])
  local need = math.max(ask.need, hold)
  entries[own + LIMIT], entries[own + STATIC] = ask.limit, ask.fixed
  entries[own + VERSION], entries[own + OPEN], entries[own + NEED] = ask.version, ask.open, need
  local others = sum_up(entries, own)
  local places = math.max(0, others.limit - most * others.fixed)
  local granted, fair = 0, 0
  if not waits then
    fair = fair_part(entries, own, places, others.need + need, before)
    -- What is wanted beyond need comes of places that nobody lacks.
    granted = math.max(hold, math.min(others.short == 0 and math.max(ask.want, need) or need, fair,
      math.max(hold, places - others.granted)))
    entries[own + GRANTED] = granted
    lacks = lacks or need > granted and others.granted > 0 and string.find(ask.name, '^[be]:')
    -- The settings of who has nothing count all the same; but only of classes: they are in each
    -- call, so that it is heard when they are others, or the class has left the scope (no limit).
    if granted == 0 and need == 0 and ask.open == 0
        and (full or ask.limit == PLACES_MAX or not string.find(ask.name, '^[be]:')) then
      remove(entries, own)
      if was and #entries > 0 then set('p:' .. ask.name, cmsgpack.pack(entries)) end
    elseif not was or not is_same(entries, own, was) then
      set('p:' .. ask.name, cmsgpack.pack(entries))
    end
  end
  for _, value in ipairs({ granted, fair, others.short, others.limit, places,
      math.max(0, places - others.granted - granted),
      (others.differs or most ~= my_nodes) and 1 or 0 }) do
    answer[#answer + 1] = value
  end
  return #entries == 0 and record
end

local function asks()
  local pools, names = {}, {}
  for i = 2, #ARGV do
    local limit, version, fixed, hold, need, want, open, pool =
      string.match(ARGV[i], '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (.+)$')
    local ask = { limit = number(limit), version = number(version), fixed = number(fixed),
      hold = number(hold), need = number(need), want = number(want), open = number(open),
      name = pool }
    if not (ask.limit and ask.version and ask.fixed and ask.hold and ask.need and ask.want
        and ask.open) then
      return nil
    end
    pools[#pools + 1], names[#names + 1] = ask, 'p:' .. pool
  end
  return pools, #names > 0 and redis.call('HMGET', key, unpack(names)) or {}
end

-- Pools of nodes that are gone stay behind: while there are too many, each call looks at some.
local function sweep()
  local cursor, gone = string.match(state[8] or '', '^%d+$') or '0', {}
  local found = redis.call('HSCAN', key, cursor, 'MATCH', 'p:*', 'COUNT', 200)
  for i = 1, #found[2], 2 do
    if #read_pool(found[2][i + 1]) == 0 then gone[#gone + 1] = found[2][i] end
  end
  if #gone > 0 then redis.call('HDEL', key, unpack(gone)) end
  set('swept', found[1])
end

local function share()
  local node = nodes[slot]
  if my_sequence <= node.sequence then return { 'old', epoch, event } end
  observe(slot)
  local refused = other_lease()
  if refused then return refused end
  local pools, records = asks()
  if not pools then return { 'bad', epoch, event, 'pool' } end
  event = event + 1
  local before = node.last
  -- It uses nothing of what it had, and may not know of what: all of that is free.
  if other == 'fresh' then node.alive = false end
  if not node.alive then node.alive, node.life = true, event end
  node.sequence, node.last, node.lease, node.nodes = my_sequence, event, my_lease, my_nodes
  longest = math.max(longest, my_lease)
  write_node(slot)
  rows[slot] = {}
  write_row(slot)
  local answer, most, empty = ok(), totals(), {}
  local full = redis.call('HLEN', key) >= POOLS_MAX
  for i, ask in ipairs(pools) do
    local no_room = full and not records[i]
    if no_room then ask.need, ask.want, ask.hold, ask.open = 0, 0, 0, 0 end
    local good, gone = pcall(settle, answer, ask, records[i], most, not ready, before, no_room)
    -- What is not of numbers is nobody's of ours.
    if not good then gone = settle(answer, ask, '', most, not ready, before) end
    if gone then
      empty[#empty + 1] = 'p:' .. ask.name
    end
  end
  if full then sweep() end
  finish()
  if #empty > 0 then redis.call('HDEL', key, unpack(empty)) end
  -- So that who has spare places need not look all the time.  It may be lost.
  if lacks and other == 'tell' then redis.pcall('PUBLISH', channel, 'short') end
  return answer
end

local function forget()
  local whose
  for i, node in pairs(nodes) do
    if node.name == other then whose = i end
  end
  if not whose then return { 'bad', epoch, event, 'no such node' } end
  event = event + 1
  observe(slot)
  if nodes[whose].alive then
    return finish({ 'alive', epoch, event, whose == slot and nodes[whose].lease or left(whose, slot) })
  end
  forget_observer(whose)
  nodes[whose] = nil
  set('n:' .. whose, '')
  set('m:' .. whose, '')
  if whose == slot then return finish({ 'again', epoch, event }) end
  return finish(ok())
end

local function look()
  local pools, records = asks()
  if not pools then return { 'bad', epoch, event, 'pool' } end
  local answer, list, shares, places = ok(), {}, {}, {}
  for i = 1, SLOTS_MAX do
    local n = nodes[i]
    if n then
      list[#list + 1] = { n.name, n.alive and 1 or 0, n.last, n.nodes }
      places[i] = #list - 1
    end
  end
  for i, ask in ipairs(pools) do
    local entries = read_pool(records[i])
    for at = 1, #entries, WIDTH do
      local granted, need, open = entries[at + GRANTED], entries[at + NEED], entries[at + OPEN]
      local limit, fixed = entries[at + LIMIT], entries[at + STATIC]
      if #shares < SHARES_MAX and (granted > 0 or need > 0 or open > 0 or limit ~= ask.limit
          or fixed ~= ask.fixed) then
        shares[#shares + 1] = { i - 1, places[entries[at + SLOT]], granted, need, open, limit,
          fixed }
      end
    end
  end
  answer[#answer + 1], answer[#answer + 2] = list, shares
  return answer
end

if operation == 'hello' then return hello() end
if not slot or nodes[slot].instance ~= instance or nodes[slot].token ~= my_token
    or my_epoch ~= epoch then
  return { 'again', epoch, event }
end
if operation == 'share' then return share() end
if operation == 'forget' then return forget() end
if operation == 'look' then return look() end
return { 'bad', epoch, event, 'operation' }
