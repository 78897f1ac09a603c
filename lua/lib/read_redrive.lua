-- The record of a redrive: the request, as JSON, under its id, and the parts that change, under "id name". All redrives are
-- in one hash, so that an ack can count for any of them without another key.
-- needs: read_json; keys: redrives
-- gives: KEPT, OF_REDRIVE, read_redrive, write_redrive
local KEPT = 604800000 -- milliseconds for which a redrive is remembered when it does not run: a week
local OF_REDRIVE = {
  'state', 'why', 'eligible', 'position', 'moved', 'gone', 'expired', 'refused', 'undone', 'latest', 'next', 'passed',
  'acked', 'died', 'acked_before', 'died_before', 'ended', 'returned', 'leased',
}
local TEXTS = { 'part', 'chosen', 'by', 'user', 'cause', 'to', 'how' } -- fields of the request
local NUMBERS = { 'rate', 'canary', 'min_success', 'ttl' }

local function are(kind, found, names, first)
  for n = first, #names do
    if type(found[names[n]]) ~= kind then
      return false
    end
  end
  return true
end

-- nil: the redrive does not exist, or is damaged.
local function read_redrive(job)
  local names = {}
  for n, name in ipairs(OF_REDRIVE) do
    names[n] = job .. ' ' .. name
  end
  local cells = redis.call('HMGET', redrives, job, unpack(names))
  local found = read_json(cells[1] or '')
  found.ttl, found.to, found.how = found.ttl or 0, found.to or '', found.how or '' -- an earlier version may have begun it
  for n, name in ipairs(OF_REDRIVE) do
    found[name] = tonumber(cells[n + 1] or 0) or cells[n + 1]
  end
  local is_whole = are('string', found, TEXTS, 1) and are('number', found, NUMBERS, 1)
  return is_whole and are('number', found, OF_REDRIVE, 3) and found or nil -- the first two are texts
end

local function write_redrive(job, changes)
  local cells = {}
  for name, value in pairs(changes) do
    cells[#cells + 1], cells[#cells + 2] = job .. ' ' .. name, value
  end
  redis.call('HSET', redrives, unpack(cells))
end
