-- Ends a redrive and takes its messages back, a chunk at a time: those that no consumer has touched are dead or expired
-- again, as they were. Returns how many of this chunk, and how many are left to check; -1 if the redrive does not exist.
local job, by, user, cause, limit = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
-- needs: now, KEPT, read_redrive, write_redrive, note_redrive, attempts; keys: redriving, redrive
local r = read_redrive(job)
if not r then
  return { 0, -1 }
end
local begins = false
if r.state ~= 'undone' then
  write_redrive(job, { state = 'undone', why = '', position = 0 })
  redis.call('ZADD', redriving, now + KEPT, job)
  r.position = 0
  begins = true
end
local ids = redis.call('LRANGE', redrive, r.position, r.position + limit - 1)
if #ids == 0 then
  if begins then -- it had moved nothing
    note_redrive(job, r, 'undone', by, user)
  end
  return { 0, 0 }
end
-- needs: each_chosen, remember, with_expiry_word, put, leave, outcome, mark_returned, setting
-- needs: keys: ready, scheduled
local index = ready
local function take_back(id, state, head, row)
  local was = state.more:match(' redrive=' .. job .. '/(%S*)') or ''
  local reason, due, charged, delay, deliveries, expires = was:match('^(%a*)/(%d+)/(%d+)/(%d+)/(%d+)/?(%d*)$')
  if tonumber(deliveries) ~= state.deliveries then
    return false
  end
  state.part, state.reason, state.due = r.part, reason, tonumber(due)
  state.charged, state.delay = tonumber(charged), tonumber(delay)
  state.more = with_expiry_word(state.more:gsub(' redrive=%S*', ''), tonumber(expires))
  mark_returned(state)
  remember(id, 'undone', attempts(state), 0, by, cause)
  leave(id, index, row, put(id, state, head))
  outcome('undone', id, head, state, 0, { consumer = by })
end
local undone = 0
if setting('per_key') or setting('gated') then -- first the blocked ones: a seat that is given back lets the next one in
  index = scheduled
  undone = each_chosen(index, #ARGV + 1, take_back, { ids = ids })
  index = ready
end
undone = undone + each_chosen(index, #ARGV + 1, take_back, { ids = ids })
r.position, r.undone = r.position + #ids, r.undone + undone
write_redrive(job, { position = r.position, undone = r.undone })
local left = redis.call('LLEN', redrive) - r.position
if left == 0 then
  note_redrive(job, r, 'undone', by, user)
end
return { undone, left }
