-- The run of failures of a dependency: the different messages that have failed since its last success, one for each call that
-- settled some. A success removes the run; it ends an hour after its last failure.
--   FRESH BEGAN LAST, then an id a line: since when no first attempt has ended; when the run began; its last failure
-- needs: now; keys: runs
-- gives: read_run, write_run, RUN_ENDS
local RUN_ENDS = 3600000 -- milliseconds

-- The run, and whether it is a new one.
local function read_run(name)
  local text = redis.call('HGET', runs, name) or ''
  local fresh, began, last = text:match('^(%d+) (%d+) (%d+)')
  if not last or tonumber(last) > now or tonumber(last) <= now - RUN_ENDS then
    return { fresh = now, began = now, ids = {}, has = {} }, true
  end
  local run = { fresh = tonumber(fresh), began = tonumber(began), ids = {}, has = {} }
  for id in text:gmatch('\n([^\n]*)') do
    run.ids[#run.ids + 1], run.has[id] = id, true
  end
  return run, false
end

local function write_run(name, run)
  local text = string.format('%.0f %.0f %.0f\n', run.fresh, run.began, now) .. table.concat(run.ids, '\n')
  redis.call('HSET', runs, name, text)
  redis.call('PEXPIRE', runs, RUN_ENDS)
end
