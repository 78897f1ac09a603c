-- A redrive that its caller carries out, message by message.
--
-- The caller reads each message of the list and offers it together with its new record. The verb redrives the message
-- if it is still the letter that was read: the same birth and death, redriven as often. An offer names its position in
-- the list, so a repetition changes nothing.

-- Redrives the messages that are offered. Returns how many; how many of them are leased; how many had no time left; and the
-- ids that the other queue already has.
--   offered: id → when it had died and how often it had been redriven, and its edited record, nil: unchanged
local function redrive_offered(q, there, job, r, ids, offered)
  local source, late, known = r.part == 'dead' and q.dead or q.expired, 0, {}
  local moved, _, _, leased = Choice.each(q, source, { ids = ids, part = r.part }, function(id, state, head, row)
    local seen, record = offered[id].seen, offered[id].record
    local is_same = seen == string.format('%.0f/%d', state.due, state.redriven)
    -- it died, or was dead again, after this redrive began
    local is_later = state.due > r.latest or Redrive.returned_since(r, state)
    if not is_same or is_later or record and record:sub(1, 7) ~= Values.packed(head.birth, 7) then
      return false -- another caller redrove it, and it died again; or it is refused
    end
    local expires = State.redriven_expiry(q, r.ttl, head, state)
    if expires and expires <= q.now then
      late = late + 1
      return false
    end
    local how = { by = r.by, cause = r.cause, job = job, expires = expires, record = record }
    if r.to == '' then
      Redrive.bring_back(q, id, state, head, source, row, how)
      return true
    end
    local moves = Transfer.hand_over(q, there, id, state, head, source, row, how)
    known[#known + 1] = not moves and id or nil
    return moves
  end)
  return moved, leased, late, known
end

-- Continues a redrive whose messages only its caller can move: it edits them, or they go to another queue of the same hash
-- tag. Returns how many were redriven; after how many milliseconds it may continue, STOPPED, or DELETED: the other queue;
-- the position of the next offer; and the ids that the other queue already has.
function Verbs.offer_redrive(q, ARGV, there)
  local job, position, grace, opening = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
  -- position: of the first message that is offered, in the list; if another call has passed it, or there is none (-1), the
  -- verb only records that the caller is still active; grace: milliseconds until maintenance ends the redrive, if the
  -- caller does not call again; opening: the other queue's; empty: the messages return to their own queue
  -- items from ARGV[5]: id, seen, record
  -- seen: when it had died, how often it had been redriven; empty: it stays dead. record: the edited one; empty: unchanged
  local r = Redrive.read(q, job)
  if not r or r.state ~= 'running' then
    return { 0, Reply.STOPPED, position, {} }
  elseif r.position ~= position then
    redis.call('ZADD', q.redriving, q.now + grace, job)
    return { 0, 0, r.position, {} }
  elseif not Queue.is_open(there, opening) then
    return { 0, Reply.DELETED, position, {} }
  end
  local room, wait = 0 -- without items the redrive ends: the list has expired
  if #ARGV > 4 then
    room, wait = Redrive.room(q, job, r, (#ARGV - 4) / 3, grace)
    if room == 0 then
      return { 0, wait, position, {} }
    end
  end
  local ids, offered, refused = {}, {}, 0
  for i = 5, 4 + 3 * room, 3 do
    ids[#ids + 1], offered[ARGV[i]] = ARGV[i], { seen = ARGV[i + 1], record = ARGV[i + 2] ~= '' and ARGV[i + 2] or nil }
    refused = refused + (ARGV[i + 1] == '' and 1 or 0)
  end
  local moved, leased, late, known = redrive_offered(q, there, job, r, ids, offered)
  if moved > 0 then
    Queue.wake(r.to == '' and q or there)
  end
  refused = refused + #known
  r.position, r.expired, r.refused = position + #ids, r.expired + late, r.refused + refused
  r.gone, r.leased = r.gone + #ids - moved - late - refused - leased, r.leased + leased
  return { moved, Redrive.stepped(q, job, r, moved, r.position >= r.eligible or #ids == 0, grace), r.position, known }
end
