-- Whether this call was done before (I12): then the count that was recorded with it, otherwise false. The register of a
-- sender holds the number of its last call that was done here. A sender makes one call at a time, so a number that is not
-- higher is the same call again, or an older one that arrives late. A value, not a function, since to define one costs
-- Redis as much as a command.
-- needs: keys: sender; args: number
-- gives: register, done
local register = redis.call('GET', sender)
local done = register and tonumber(number) <= tonumber(register:match('^%d+') or 0) and tonumber(register:match('%d*$'))
