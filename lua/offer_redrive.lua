-- Continues a redrive whose messages only its caller can move: it edits them, or they go to another queue of the same hash
-- tag (lib/hand_over). The caller offers the next messages of the list, each as it has read it. Returns how many were
-- redriven; after how many milliseconds it may continue (-1: it does not run; -2: the other queue was deleted); the
-- position of the next offer; and the ids that the other queue already has.
local job, position, grace, opening = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
-- position: of the first message that is offered, in the list; if another call has passed it, or there is none (-1), the
-- script only records that the caller is still active; grace: milliseconds until maintenance ends the redrive, if the
-- caller does not call again
-- opening: the other queue's; empty: the messages return to their own queue
-- items from ARGV[5]: id, seen, record
-- seen: when it had died, how often it had been redriven; empty: it stays dead. record: the edited one; empty: unchanged
-- needs: now, read_redrive; keys: redriving
local r = read_redrive(job)
if not r or r.state ~= 'running' then
  return { 0, -1, position, {} }
elseif r.position ~= position then
  redis.call('ZADD', redriving, now + grace, job)
  return { 0, 0, r.position, {} }
end
-- needs: hand_over, wake_there, is_there
if not is_there then
  return { 0, -2, position, {} }
end
-- needs: room_of_redrive
local room = 0 -- without items the redrive ends: the list has expired
if #ARGV > 4 then
  local wait
  room, wait = room_of_redrive(job, r, (#ARGV - 4) / 3, grace)
  if room == 0 then
    return { 0, wait, position, {} }
  end
end
-- needs: pack_number, each_chosen, redriven_expiry, bring_back, stepped, wake_one, returned_since; keys: dead, expired
local source = r.part == 'dead' and dead or expired
local ids, offered, late, known, refused = {}, {}, 0, {}, 0
for i = 5, 4 + 3 * room, 3 do
  ids[#ids + 1], offered[ARGV[i]] = ARGV[i], { seen = ARGV[i + 1], record = ARGV[i + 2] ~= '' and ARGV[i + 2] or nil }
  refused = refused + (ARGV[i + 1] == '' and 1 or 0)
end
local moved, _, _, leased = each_chosen(source, #ARGV + 1, function(id, state, head, row)
  local seen, record = offered[id].seen, offered[id].record
  local is_same = seen == string.format('%.0f/%d', state.due, state.redriven)
  local is_later = state.due > r.latest or returned_since(r, state) -- it died, or was dead again, after this redrive began
  if not is_same or is_later or record and record:sub(1, 7) ~= pack_number(head.birth, 7) then
    return false -- another caller redrove it, and it died again; or it is refused
  end
  local expires = redriven_expiry(r.ttl, head, state)
  if expires and expires <= now then
    late = late + 1
    return false
  elseif r.to == '' then
    bring_back(id, state, head, source, row, r.by, r.cause, job, expires, record)
  elseif hand_over(id, state, head, source, row, r.by, r.cause, { expires = expires, record = record }) == false then
    known[#known + 1] = id
    return false
  end
end, { ids = ids, part = r.part })
if moved > 0 then
  local wake_some = r.to == '' and wake_one or wake_there
  wake_some()
end
refused = refused + #known
r.position, r.expired, r.refused = position + #ids, r.expired + late, r.refused + refused
r.gone, r.leased = r.gone + #ids - moved - late - refused - leased, r.leased + leased
return { moved, stepped(job, r, moved, r.position >= r.eligible or #ids == 0, grace), r.position, known }
