-- One token, never more: it wakes one waiting client, whose claim passes it on where work is left. So no one
-- polls, and a message wakes one client of a thousand.
local function wake_one()
  if redis.call('LLEN', wake) == 0 then
    redis.call('LPUSH', wake, 1)
    redis.call('PEXPIRE', wake, 5000) -- who comes later looks before it waits; so none is left behind (I13)
  end
end
