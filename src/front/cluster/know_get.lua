-- SPDX-License-Identifier: ISC
-- What all nodes say of some destinations.  KEYS: di, d:NAME ...  ARGV: name ...; names of
-- which nothing is left are taken out of the list.
-- Answer: { 'ok', ms by this server's clock, number of the name, node, "MS RECORD", ... }.
-- What cannot be ours - another kind of key, too many or too long fields - comes as '': it
-- is to be counted, and is not to make the answer too large.
local NODES, RECORD = 64, 1300
local time = redis.call('TIME')
local answer = { 'ok', tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000) }

local function tell(number, node, record)
	answer[#answer + 1] = number
	answer[#answer + 1] = node
	answer[#answer + 1] = record
end

for i = 2, #KEYS do
	local count = redis.pcall('HLEN', KEYS[i])

	if type(count) == 'table' and not string.find(count.err, 'WRONGTYPE') then
		return redis.error_reply(count.err)
	elseif type(count) == 'table' or count > NODES then
		tell(i - 1, '', '')
	elseif count == 0 then
		redis.call('ZREM', KEYS[1], ARGV[i - 1])
	else
		local found = redis.call('HGETALL', KEYS[i])

		for j = 1, #found, 2 do
			local fits = #found[j] <= 31 and #found[j + 1] <= RECORD

			tell(i - 1, fits and found[j] or '', fits and found[j + 1] or '')
		end
	end
end
return answer
