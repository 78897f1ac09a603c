-- A session ends in several queues at once. What it does in one of them is a share:
--   ids to ack, texts: their states, and results; taken: id → true for these; held: token → how many of these it holds
--   queue; is_open: whether it is the one that the client opened; lost: the ids that are not held; groups of messages;
--   is_past: whether any of these have expired; member and length of the staged list, an empty member: no list

-- Adds a message to the acks of a share, if its token holds it. Returns whether it does, and the state.
local function take_up(q, share, id, token, result)
  local text, last = redis.call('HGET', q.states, id), #share.ids + 1
  local held = State.holds(token, text)
  if held and not share.taken[id] then -- an item may be given twice
    share.ids[last], share.texts[last], share.results[last], share.taken[id] = id, text, result, true
    share.held[token] = (share.held[token] or 0) + 1
  end
  return held, text
end

-- Acks the messages of a share.
local function ack(q, share)
  if #share.ids > 0 then
    Acks.remove(q, share.ids, share.texts, share.results)
    Leases.take_off(q, share.held)
  end
end

-- Reads a share from ARGV[at] on. Returns it, and where the next one begins.
local function read_share(there, ARGV, at)
  local share = { queue = there, ids = {}, texts = {}, results = {}, taken = {}, held = {}, lost = {}, groups = {} }
  share.is_open = Queue.is_open(there, ARGV[at])
  local acks = tonumber(ARGV[at + 1])
  for n = at + 2, at + 1 + 3 * acks, 3 do
    share.lost[#share.lost + 1] = not take_up(there, share, ARGV[n], ARGV[n + 1], ARGV[n + 2]) and ARGV[n] or nil
  end
  at = at + 2 + 3 * acks
  local groups = tonumber(ARGV[at])
  at = at + 1
  for n = 1, groups do
    local size = tonumber(ARGV[at + 2])
    share.groups[n] = { delay = tonumber(ARGV[at]), ttl = tonumber(ARGV[at + 1]), first = at + 3, last = at + 2 + 2 * size }
    share.is_past = share.is_past or Ttl.is_past(there, share.groups[n].ttl)
    at = at + 3 + 2 * size
  end
  share.member, share.length = ARGV[at], tonumber(ARGV[at + 1])
  return share, at + 2
end

-- Whether the list exists and is complete that was staged for this queue.
local function has_staged(there, member, length)
  return member == '' or redis.call('LLEN', there.staged) == length
    or redis.call('ZSCORE', there.committed, member) ~= false -- the commit was cut off, and the list is being moved
end

-- Adds the list that was staged for this queue; `move_staged` moves its messages later.
local function add_staged(there, member, grace)
  if member ~= '' then
    redis.call('ZADD', there.committed, there.now + grace, member)
    redis.call('PERSIST', there.staged)
  end
end

-- Sends the messages of a commit in each queue. Returns those that were not sent, since a dead letter has their id: the
-- queue's number and the position of the id in ARGV, in pairs; the position is below 0 if a known message has another key.
local function send_shares(shares, ARGV, grace)
  local blocked = {}
  for n, share in ipairs(shares) do
    local there = share.queue
    for _, group in ipairs(share.groups) do
      local known = Send.add(there, ARGV, group.first, group.last, group.delay, group.ttl, '')
      for k = 2, #known, 2 do
        local at = group.first + 2 * known[k] - 2
        if known[k + 1]:match('^%a+') == Reply.DEAD then
          blocked[#blocked + 1], blocked[#blocked + 2] = n, at
        end
        if known[k + 1]:find('/key', 1, true) then
          blocked[#blocked + 1], blocked[#blocked + 2] = n, -at
        end
      end
    end
    add_staged(there, share.member, grace)
  end
  return blocked
end

-- The positions of the ids of a group that the queue already has, so that a send would leave them as they are.
local function known_in(there, ARGV, group)
  local ids, known = {}, {}
  for at = group.first, group.last, 2 do
    ids[#ids + 1] = ARGV[at]
  end
  local set = redis.call('HMGET', there.settings, 'dedup_window', 'results', 'kept')
  local existing = Send.existing(there, ids, set[1], set[2], set[3])
  for n = 1, #ids do
    known[#known + 1] = existing[n] and group.first + 2 * n - 2 or nil
  end
  return known
end

-- The reply of a strict commit that known ids refuse: KNOWN and these, the queue's number and the position of the id in
-- ARGV, in pairs. nil: none is known, and the beginning of the call is noted: cut off after that, a repetition must not
-- refuse the messages that the call has sent itself.
local function known_ids(q, shares, ARGV, number, noted)
  if Register.has_begun(number, noted) then
    return nil
  end
  local known = { Reply.KNOWN }
  for n, share in ipairs(shares) do
    local there = share.queue
    for _, group in ipairs(share.groups) do
      for _, at in ipairs(known_in(there, ARGV, group)) do
        known[#known + 1], known[#known + 2] = n, at
      end
    end
  end
  if #known > 1 then
    return known
  end
  Register.begin(q, number)
end

-- How many messages a queue has that has no room for what a share sends, beside what its acks remove; -1: the share has a
-- list, which is moved later. Otherwise nil.
local function over(share, ARGV)
  local there = share.queue
  local room, count = Length.room(there, redis.call('HGET', there.settings, 'max_length') or '')
  if not room then
    return nil
  elseif share.member ~= '' then
    return -1
  end
  local seen, more = {}, 0
  for _, group in ipairs(share.groups) do
    for _, at in ipairs(known_in(there, ARGV, group)) do
      seen[ARGV[at]] = true
    end
    for at = group.first, group.last, 2 do
      more = more + (seen[ARGV[at]] and 0 or 1)
      seen[ARGV[at]] = true
    end
  end
  for _, text in ipairs(more > 0 and share.texts or {}) do
    more = more - (Again.is_asked(text) and 0 or 1)
  end
  return more > math.max(room, 0) and count or nil
end

-- The reply of a commit that one of its queues has no room for; nil: they have.
local function full(shares, ARGV)
  for n, share in ipairs(shares) do
    local count = (share.groups[1] or share.member ~= '') and over(share, ARGV)
    if count then
      return { Reply.FULL, n, count }
    end
  end
end

-- The reply of a commit that cannot be done; nil: it can.
local function refusal(shares)
  local lost, refused = { Reply.LOST }, nil
  for n, share in ipairs(shares) do
    local there = share.queue
    for _, id in ipairs(share.lost) do
      lost[#lost + 1], lost[#lost + 2] = n, id
    end
    refused = refused or not share.is_open and Reply.DELETED
      or not has_staged(there, share.member, share.length) and Reply.INCOMPLETE or share.is_past and Reply.PAST or nil
  end
  return #lost > 1 and lost or refused and { refused } or nil
end

-- The sends and acks of a session, or of an ack that sends, take effect together, in several queues, or not at all. The
-- call records that all is sent before it acks anything, so a repetition acks the rest (I12). Messages that are too large
-- for one call were staged, and are moved afterwards (`move_staged`). Returns DONE and the messages that were not sent
-- (`send_shares`). Or nothing was done: LOST and the messages that are not held, the queue's number and the id, in pairs;
-- DELETED: one of the queues; INCOMPLETE: a staged list has expired; PAST: messages would have expired; FULL, the number of
-- the queue, and how many messages it has, -1: it takes no staged list, since it has a limit; KNOWN (`known_ids`).
function Verbs.commit(q, ARGV, queues)
  local number, grace = ARGV[1], ARGV[2] -- grace: milliseconds until maintenance moves the staged messages
  local strict = ARGV[3] == '1' -- a known id refuses the whole commit
  -- items from ARGV[4]: opening, acks, id, token, result; groups, delay, ttl, count, id, payload; member, length
  -- For each queue: its opening; the number of its acks, and the acks with their results; the number of its groups of
  -- messages, and the groups, each with its delay and ttl (Send.add) and its number of messages; then the list that is
  -- staged for it, as in `committed`, and its length; empty and 0: no list.
  local done, noted = Register.done_before(q, number)
  local shares, at = {}, 4
  for n, there in ipairs(queues) do
    shares[n], at = read_share(there, ARGV, at)
  end
  local reply = not done and (refusal(shares) or full(shares, ARGV) or strict and known_ids(q, shares, ARGV, number, noted))
  if reply then
    return reply
  end
  local blocked
  if done then
    blocked = Register.known_before(noted)
  else
    blocked = send_shares(shares, ARGV, grace)
    -- if cut off before this, a repetition sends the rest; if after it, it acks the rest
    Register.note_done(q, number, 1, #blocked > 0 and table.concat(blocked, ' ') .. ' ')
  end
  for _, share in ipairs(shares) do
    local there = share.queue
    ack(there, share)
  end
  table.insert(blocked, 1, Reply.DONE)
  return blocked
end

-- Acks all of the messages or none: the end of a session that sends nothing. Returns, for each item that is not held, its
-- position (1, 2, …) and its verdict; then nothing was changed.
-- drains
-- items from ARGV[1]: id, token
function Verbs.ack_all(q, ARGV)
  local share, lost = { ids = {}, texts = {}, results = {}, taken = {}, held = {} }, {}
  for i = 1, #ARGV, 2 do
    local id, token = ARGV[i], ARGV[i + 1]
    local held, text = take_up(q, share, id, token, '')
    if not held then
      lost[#lost + 1], lost[#lost + 2] = (i + 1) / 2, Leases.refusal(q, id, token, text)
    end
  end
  if #lost == 0 then
    ack(q, share)
  end
  return lost
end
