-- SPDX-License-Identifier: ISC
-- Writes what one node says of a destination, and tells the others at once.
-- KEYS: dv, di, d:NAME, dn (a channel).  ARGV: node, record ("": take it away), name, time to
-- live in ms, how many destinations there may be, longest time to live of all in ms.
-- Answer: { 'ok', number } | { 'full' }.
local node, record, name = ARGV[1], ARGV[2], ARGV[3]
local live, most, longest = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])

if record == '' then
	redis.call('HDEL', KEYS[3], node)
	if redis.call('EXISTS', KEYS[3]) == 0 then
		redis.call('ZREM', KEYS[2], name)
	end
	return { 'ok', tonumber(redis.call('GET', KEYS[1]) or '0') }
end
if not redis.call('ZSCORE', KEYS[2], name) and redis.call('ZCARD', KEYS[2]) >= most then
	return { 'full' }
end
local time = redis.call('TIME')
local now = time[1] .. string.format('%03d', math.floor(tonumber(time[2]) / 1000))
local number = redis.call('INCR', KEYS[1])
-- It was lost alone: the names still have the numbers of before.
if number == 1 then
	local count = redis.call('ZCARD', KEYS[2])
	local last = count > 0 and redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', '+inf',
	    'WITHSCORES', 'LIMIT', count - 1, 1) or {}

	if last[2] then
		number = tonumber(last[2]) + 1
		redis.call('SET', KEYS[1], string.format('%d', number))
	end
end
redis.call('HSET', KEYS[3], node, now .. ' ' .. record)
if redis.call('PTTL', KEYS[3]) < live then
	redis.call('PEXPIRE', KEYS[3], live)
end
redis.call('ZADD', KEYS[2], number, name)
redis.call('PEXPIRE', KEYS[1], longest)
redis.call('PEXPIRE', KEYS[2], longest)
redis.call('PUBLISH', KEYS[4], string.format('%d', number) .. ' ' .. node .. ' ' .. name .. ' ' .. record)
return { 'ok', number }
