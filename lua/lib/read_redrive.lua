-- The record of a redrive: what was asked for, as JSON, under its id, and what changes, under "id name". All of them are in
-- one hash, so that an ack can count for any of them without a key more.
-- needs: read_json; keys: redrives
-- gives: KEPT, OF_REDRIVE, read_redrive, write_redrive
local KEPT = 604800000 -- milliseconds for which a redrive is remembered when it does not run: a week
local OF_REDRIVE = {
  'state', 'why', 'eligible', 'position', 'moved', 'gone', 'expired', 'refused', 'undone', 'latest', 'next', 'passed',
  'acked', 'died', 'acked_before', 'died_before',
}

-- nil: there is none.
local function read_redrive(job)
  local names = {}
  for n, name in ipairs(OF_REDRIVE) do
    names[n] = job .. ' ' .. name
  end
  local cells = redis.call('HMGET', redrives, job, unpack(names))
  local found = read_json(cells[1] or '')
  if not found.chosen then -- or it is damaged
    return nil
  end
  for n, name in ipairs(OF_REDRIVE) do
    found[name] = tonumber(cells[n + 1] or 0) or cells[n + 1]
  end
  return found
end

local function write_redrive(job, changes)
  local cells = {}
  for name, value in pairs(changes) do
    cells[#cells + 1], cells[#cells + 2] = job .. ' ' .. name, value
  end
  redis.call('HSET', redrives, unpack(cells))
end
