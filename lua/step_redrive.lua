-- Continues a redrive: redrives its next messages, as many as it may now (lib/room_of_redrive), and pauses it if too few of
-- them succeed. They are counted in the same script, so any number of clients may call this concurrently. Returns how many
-- were redriven, and after how many milliseconds it may continue; -1: it does not run.
local job, limit, grace = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
-- grace: milliseconds until maintenance continues it, if no caller does; 0: maintenance calls, and does only due steps
-- needs: now, KEPT, read_redrive, write_redrive, stop_redrive, range_of_redrive; keys: redriving, redrive
local r = read_redrive(job)
local range = r and range_of_redrive(job)
local at = tonumber(redis.call('ZSCORE', redriving, job) or 0)
local is_far = at > now + 60000 -- a minute: the clock stepped back; or its rate is low, which makes it wait anyway
local is_due = at <= now or is_far and r and r.state == 'running' and not r.offered
if grace == 0 and not is_due then
  return { 0, -1 }
elseif not r or range == false or r.state ~= 'running' then
  if is_due then
    -- needs: forget_redrive
    forget_redrive(job)
  end
  return { 0, -1 }
elseif r.offered then -- only its caller can continue it (offer_redrive), and did not
  if is_due then
    stop_redrive(job, r, 'cancelled', 'left', '"maintenance"', '')
  end
  return { 0, -1 }
end
-- needs: room_of_redrive
local room, wait = room_of_redrive(job, r, limit, grace)
if room == 0 then
  redis.call('PEXPIRE', redrive, KEPT)
  return { 0, wait }
end
-- needs: each_chosen, redriven_expiry, bring_back, stepped, wake_one, returned_since; keys: dead, expired, history
local source = r.part == 'dead' and dead or expired
local ids = range and {} or redis.call('LRANGE', redrive, r.position, r.position + room - 1)
local back, late, chosen = {}, 0, range or { ids = ids }
chosen.limit, chosen.part = room, r.part
local moved, score, member, leased = each_chosen(source, #ARGV + 1, function(id, state, head, row)
  -- It died, or was dead again, after this redrive began; or this one redrove it, and the clock stepped back.
  local story = state.redriven > 0 and redis.call('HGET', history, id) or ''
  if state.due > r.latest or returned_since(r, state) or story:find(r.cause, 1, true) then
    return false
  end
  local expires = redriven_expiry(r.ttl, head, state)
  if expires and expires <= now then
    late = late + 1
    return false
  end
  bring_back(id, state, head, source, row, r.by, r.cause, job, expires)
  back[#back + 1] = id
end, chosen)
r.expired = r.expired + late
local over
if range then
  over = score == ''
  r.gone = over and math.max(0, r.eligible - r.moved - moved - r.expired) or 0
  if not over then
    write_redrive(job, { score = score, member = member })
  end
  if moved > 0 then
    redis.call('RPUSH', redrive, unpack(back)) -- for an undo
  end
else
  r.position, r.leased = r.position + #ids, r.leased + leased
  r.gone = r.gone + #ids - moved - late - leased
  over = r.position >= r.eligible or #ids == 0
end
if moved > 0 then
  wake_one()
end
return { moved, stepped(job, r, moved, over, grace) }
